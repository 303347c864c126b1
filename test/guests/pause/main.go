// Command pause is the only program in the containers of guests: it waits until it is
// told to end, reaps what loses its parent, and ends after the given delay.
//
//	pause [-after=20s]
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	after := flag.Duration("after", 0, "how long it takes to end")
	flag.Parse()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			break
		}
		reap()
	}
	fmt.Println("told to end; ending in", *after)
	time.Sleep(*after)
}

// reap removes processes that have ended.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
