package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// rigVariable names the environment variable with the file in which a process
// publishes the rig that it runs for others. Where it is not set, each process
// whose tests need a rig starts one.
const rigVariable = "OPENSTACK_RIG"

// shared is the rig of this process, which all tests use.
var shared struct {
	sync.Mutex
	rig *Rig
	err error
}

// ForTest returns the rig of this process: that of rigVariable once it is there, or
// one that is started for the first test that asks. It runs until StopShared, or
// until the process that started it dies.
func ForTest(t testing.TB) *Rig {
	t.Helper()
	Require(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.rig == nil && shared.err == nil {
		began := time.Now()
		shared.rig, shared.err = obtain(context.WithoutCancel(t.Context()))
		t.Logf("OpenStack is there after %v", time.Since(began).Round(100*time.Millisecond))
	}
	if shared.err != nil {
		t.Fatalf("start OpenStack: %v", shared.err)
	}
	return shared.rig
}

func obtain(ctx context.Context) (*Rig, error) {
	if file := os.Getenv(rigVariable); file != "" {
		return await(ctx, file)
	}
	return Start(ctx, Options{})
}

// Main runs the tests of a package and stops the rig, if one was started.
func Main(m *testing.M) {
	code := m.Run()
	StopShared()
	os.Exit(code)
}

// StopShared stops the rig of this process, if one was started.
func StopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.rig != nil {
		shared.rig.Stop()
	}
}

// publication is what a file of rigVariable holds.
type publication struct {
	Address address
	Failure string // why there is no rig
}

// Share starts a rig in the background for the processes that get the returned
// setting of rigVariable, which wait until it has started. They learn of a failure,
// too. The function that it returns ends the rig, also while it starts; the rig
// ends with this process in any case. Where the packages are missing nothing is
// started, and the tests that need them say so.
func Share(ctx context.Context) (setting string, stop func(), err error) {
	if !installed() {
		return rigVariable + "=", func() {}, nil
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", leftover, os.Getpid()))
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "rig.json")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // who uses it ends first
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		share(ctx, file)
	}()
	return rigVariable + "=" + file, func() {
		cancel()
		<-ended
		_ = os.RemoveAll(dir) // the next rig removes what is left
	}, nil
}

// share runs a rig until ctx ends.
func share(ctx context.Context, file string) {
	var p publication
	r, err := Start(ctx, Options{})
	if err != nil {
		p.Failure = err.Error()
	} else {
		defer r.Stop()
		p.Address = r.address
	}
	if err := p.write(file); err != nil {
		fmt.Fprintln(os.Stderr, "publish the running OpenStack:", err)
	}
	<-ctx.Done()
}

// write makes the whole file appear at once.
func (p publication) write(file string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// await returns the rig that another process publishes in a file.
func await(ctx context.Context, file string) (*Rig, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(peek)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(file)
		if err == nil {
			return attach(text)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			return nil, fmt.Errorf("the process that starts it has ended: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s, which %s names: %w", file, rigVariable, ctx.Err())
		}
	}
}

// attach returns the rig that a publication tells of.
func attach(text []byte) (*Rig, error) {
	var p publication
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	if p.Failure != "" {
		return nil, errors.New(p.Failure)
	}
	r := newRig(p.Address)
	r.foreign = true
	return r, nil
}
