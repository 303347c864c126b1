package main

import (
	"fmt"
	"os"
	"sync"
	"time"
)

// progress prints every ten seconds how far something is, until the function
// that it returns is called.
func progress(what string, say func() string) (stop func()) {
	const every = 10 * time.Second
	began, done := time.Now(), make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "%s, %s: %s\n", what, time.Since(began).Round(time.Second), say())
			}
		}
	})
	return func() { close(done); printer.Wait() }
}
