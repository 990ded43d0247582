"""The pages of this repository as a site: laid out for mdBook, and checked with and without it."""
