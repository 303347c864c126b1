package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// journal is the file that remembers a cloud: one line for every change, in
// order. It outlives this process, not the machine.
type journal struct {
	path string
	file *os.File // nil without a path, and while the journal is read
}

// record returns what the cloud calls for every line; nil without a file.
func (j *journal) record() func([]byte) {
	if j.path == "" {
		return nil
	}
	return func(line []byte) {
		if j.file == nil {
			return
		}
		if _, err := j.file.Write(line); err != nil {
			slog.Error("Cannot remember a change", "file", j.path, "error", err)
		}
	}
}

// open makes c what the file says, writes the file again with what is needed of
// it, and goes on with it.
func (j *journal) open(c *sim.Cloud, o options) error {
	if j.path == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Clean(j.path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read state: %w", err)
	}
	if err := c.Replay(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("read state %s: %w", j.path, err)
	}
	if o.configured {
		c.Change(func(s *sim.Settings) { *s = o.settings })
	}
	if err := replace(j.path, c.Lines()); err != nil {
		return err
	}
	if j.file, err = os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open state: %w", err)
	}
	return nil
}

// Close ends the file.
func (j *journal) Close() error {
	if j.file == nil {
		return nil
	}
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return nil
}
