// Four goroutines, of which one at a time has a mutex for 5 ms, forty times in all.
package main

import (
	"sync"
	"time"
)

func main() {
	var mutex sync.Mutex
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := 0; turn < 10; turn++ {
				mutex.Lock()
				time.Sleep(5 * time.Millisecond)
				mutex.Unlock()
			}
		}()
	}
	all.Wait()
}
