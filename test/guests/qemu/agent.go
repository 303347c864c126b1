package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"time"
)

// timeout bounds each step of a guest: the processor is emulated, and the machine may have much
// other work.
const timeout = 25 * time.Minute

// until calls check each second until it returns nil. There is nothing to watch in a guest, and each
// question costs it time.
func until(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", timeout, err)
		case <-tick.C:
		}
	}
}

// AwaitConsole waits until the console shows a pattern, and returns the text that matches.
func (g *Guest) AwaitConsole(pattern string) string {
	g.Helper()
	looked := regexp.MustCompile(pattern)
	var found string
	g.must(until(g.Context(), func(context.Context) error {
		if found = looked.FindString(g.Console()); found != "" {
			return nil
		}
		if g.process.Ended() {
			g.Fatalf("%s ended before its console showed %s: %s", g.name, pattern, g.process.Tail())
		}
		return fmt.Errorf("the console of %s does not show %s", g.name, pattern)
	}))
	return found
}

// Run runs a shell command in the guest as soon as its agent answers, and returns what the
// command printed and its exit code. It runs the command again if the guest restarts before it is known to have ended.
func (g *Guest) Run(command string) (output string, code int) {
	g.Helper()
	g.must(until(g.Context(), func(ctx context.Context) (err error) {
		output, code, err = g.run(ctx, command)
		return err
	}))
	return output, code
}

// errRuns is the answer of the agent while a command runs.
var errRuns = errors.New("the command has not ended")

func (g *Guest) run(ctx context.Context, command string) (string, int, error) {
	var started struct{ PID int }
	err := g.ask(ctx, "guest-exec", map[string]any{
		"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true,
	}, &started)
	if err != nil {
		return "", 0, err
	}
	var ended struct {
		Exited   bool
		ExitCode int
		Out      []byte `json:"out-data"`
		Err      []byte `json:"err-data"`
	}
	var lost error
	err = until(ctx, func(ctx context.Context) error {
		err := g.ask(ctx, "guest-exec-status", map[string]any{"pid": started.PID}, &ended)
		if refused, ok := errors.AsType[refusal](err); ok {
			lost = refused // the guest has restarted, and its agent does not know the process
			return nil
		}
		if err == nil && !ended.Exited {
			return errRuns
		}
		return err
	})
	return string(ended.Out) + string(ended.Err), ended.ExitCode, errors.Join(err, lost)
}

// refusal is what the agent says to a command that it does not carry out.
type refusal string

func (r refusal) Error() string { return "the guest's agent refuses: " + string(r) }

// ask asks the guest's agent.
func (g *Guest) ask(ctx context.Context, command string, arguments, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", g.path("agent"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	until, _ := ctx.Deadline()
	if err := c.SetDeadline(until); err != nil {
		return err
	}
	lines := bufio.NewReader(c)
	if err := synchronize(c, lines); err != nil {
		return err
	}
	if err := json.NewEncoder(c).Encode(map[string]any{"execute": command, "arguments": arguments}); err != nil {
		return err
	}
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var said struct {
		Return json.RawMessage
		Error  *struct{ Desc string }
	}
	if err := json.Unmarshal(line, &said); err != nil {
		return fmt.Errorf("the guest's agent says %q: %w", line, err)
	}
	if said.Error != nil {
		return refusal(said.Error.Desc)
	}
	return json.Unmarshal(said.Return, answer)
}

// synchronize reads past the answers to earlier connections, which ended before they came.
func synchronize(c net.Conn, lines *bufio.Reader) error {
	id := rand.Int32()
	err := json.NewEncoder(c).Encode(map[string]any{"execute": "guest-sync", "arguments": map[string]int32{"id": id}})
	for err == nil {
		var line []byte
		if line, err = lines.ReadBytes('\n'); err != nil {
			break
		}
		var said struct{ Return json.RawMessage }
		if json.Unmarshal(line, &said) == nil && string(said.Return) == fmt.Sprint(id) {
			return nil
		}
	}
	return err
}
