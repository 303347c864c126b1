package openstack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a program that runs until it is told to end. The kernel kills it
// when this process dies.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// launch starts a program whose output is appended to a file.
func launch(name, log string, env []string, program string, args ...string) (*process, error) {
	file, err := os.OpenFile(filepath.Clean(log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = file, file, attributes()
	started := make(chan error)
	go func() {
		// The kernel kills the program when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// wait returns when the program has ended by itself, with an error unless it
// succeeded.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
	case <-ctx.Done():
		p.end(syscall.SIGKILL, 0)
		return fmt.Errorf("%s: %w", p.name, ctx.Err())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with code %d\n%s", p.name, code, p.tail())
	}
	return nil
}

// end sends a signal to the program and all that it started, waits, and kills
// what has not ended by then.
func (p *process) end(s syscall.Signal, patience time.Duration) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may have ended
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// tail is the end of the program's output.
func (p *process) tail() string {
	const lines = 30
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if n := len(all) - lines; n > 0 {
		all = all[n:]
	}
	return "last lines of " + p.log + ":\n\t" + strings.Join(all, "\n\t")
}

// up waits until ready says so, or the program has ended.
func (p *process) up(ctx context.Context, ready func() bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended\n%s", p.name, p.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w", p.name, ctx.Err()), errors.New(p.tail()))
		case <-tick.C:
		}
	}
	return nil
}

// run runs a program to its end and returns what it writes to its standard
// output.
func run(ctx context.Context, input string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, failed bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = strings.NewReader(input), &out, &failed, attributes()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", program, err, failed.String())
	}
	return out.String(), nil
}
