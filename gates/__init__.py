"""What every gate needs: a place to run in, programs, cases, what is expected to fail, and the page."""
