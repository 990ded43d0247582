// guarded THREADS TIMES ROUNDS [LOCKED]: goroutines that compute, each time with one mutex for all (or, without the last word, with one of its own).
package main

import (
	"os"
	"strconv"
	"sync"
)

func main() {
	threads, times, rounds := number(1), number(2), number(3)
	var common sync.Mutex
	var all sync.WaitGroup
	sums := make([]uint64, threads*8)
	for at := range threads {
		mutex := &common
		if len(os.Args) < 5 {
			mutex = new(sync.Mutex)
		}
		all.Go(func() {
			for range times {
				mutex.Lock()
				sums[at*8] += compute(uint64(rounds))
				mutex.Unlock()
			}
		})
	}
	all.Wait()
}

func compute(rounds uint64) uint64 {
	value := uint64(1)
	for round := range rounds {
		value = value*6364136223846793005 + round
	}
	return value
}

func number(at int) int {
	value, reason := strconv.Atoi(os.Args[at])
	if reason != nil {
		panic(reason)
	}
	return value
}
