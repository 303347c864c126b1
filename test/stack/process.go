package stack

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// process is a program that runs until it is ended.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when it has ended
}

// launch starts a program whose output is appended to a file. It ends with this
// process at the latest.
func launch(name, program, log string, args []string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel ends the program with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in the log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) kill() error      { return p.end(syscall.SIGKILL) }
func (p *process) terminate() error { return p.end(syscall.SIGTERM) }

// end sends a signal and returns when the program has ended.
func (p *process) end(s syscall.Signal) error {
	if p.ended() {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// tail returns the last lines of a log under a heading.
func tail(name, log string) string {
	const lines = 40
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Sprintf("%s: %v\n", name, err)
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return fmt.Sprintf("last lines of %s:\n\t%s\n", name, strings.Join(all[max(0, len(all)-lines):], "\n\t"))
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
