package openstack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAwait: a process waits for the rig of another, learns of its failure, and gives
// up when the other has ended.
func TestAwait(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		publish func(t *testing.T, file string)
		failure string // a part of the error; empty is a rig
	}{
		"Running": {
			"it is there", func(t *testing.T, file string) {
				t.Helper()
				publish(t, file, publication{Address: address{settings: settings{Ports: map[string]int{"nova": 7}}}})
			}, "",
		},
		"Later": {
			"compiling is faster than starting", func(t *testing.T, file string) {
				t.Helper()
				time.AfterFunc(3*peek, func() {
					publish(t, file, publication{Address: address{settings: settings{Ports: map[string]int{"nova": 7}}}})
				})
			}, "",
		},
		"Failed": {"every package says why", func(t *testing.T, file string) {
			t.Helper()
			publish(t, file, publication{Failure: "no room"})
		}, "no room"},
		"Gone": {"nobody will publish it", func(t *testing.T, file string) {
			t.Helper()
			if err := os.Remove(filepath.Dir(file)); err != nil {
				t.Error(err)
			}
		}, "has ended"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "rig", "rig.json")
			if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			c.publish(t, file)
			r, err := await(t.Context(), file)
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("got %v, want %q\nbecause: %s", err, c.failure, c.reason)
				}
				return
			}
			if err != nil || r.URL("nova") != "http://127.0.0.1:7" {
				t.Errorf("got %+v, %v, want the rig that was published\nbecause: %s", r, err, c.reason)
			}
		})
	}
}

func publish(t *testing.T, file string, p publication) {
	t.Helper()
	if err := p.write(file); err != nil {
		t.Error(err)
	}
}

// TestStopLeavesTheRigOfOthers: other packages still use it.
func TestStopLeavesTheRigOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "rig.json")
	publish(t, file, publication{Address: address{settings: settings{Dir: dir}}})
	r, err := await(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	r.Stop()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("its folder is gone: %v", err)
	}
}
