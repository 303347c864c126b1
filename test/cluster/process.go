package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// tailLines is how much of a log is shown when something goes wrong.
const tailLines = 25

// A process is a program that runs until it is killed.
type process struct {
	name string
	log  string // file with its output; it survives restarts
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// launch starts a program whose output is appended to a file. It dies with this
// process, and does not share its signals, so that Ctrl-C leaves the order of
// the end to us.
func launch(name, program, log string, args []string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = attributes()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// run holds one thread as long as the program runs: the kernel kills the
// program when the thread that started it ends, not when the process does.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // how a killed program ended says nothing
	close(p.done)
}

// ended reports whether the program has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the program without notice and returns when it is gone. A nil or
// ended process is no error.
func (p *process) kill() error {
	if p == nil || p.ended() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// tail returns the last lines of a log, indented, under a heading.
func tail(name, log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return fmt.Sprintf("%s: %v\n", name, err)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if n := len(lines) - tailLines; n > 0 {
		lines = lines[n:]
	}
	return fmt.Sprintf("last lines of %s:\n\t%s\n", name, strings.Join(lines, "\n\t"))
}
