package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Find builds the simulation with the mistake in it, and plays worlds until one
// violates an invariant. It returns the invariant's name and the number of worlds.
func (m Mutation) Find(ctx context.Context, root string, first uint64, seeds int) (rule string, after int, err error) {
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", 0, err
	}
	program := filepath.Join(dir, "simulation")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", program,
		"./test/simulation")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("build: %w: %s", err, text)
	}
	play := exec.CommandContext(ctx, program, "-find", fmt.Sprintf("-first=%d", first),
		fmt.Sprintf("-seeds=%d", seeds))
	text, err := play.CombinedOutput()
	found := regexp.MustCompile(`found (\w+) after (\d+) worlds`).FindSubmatch(text)
	if found == nil {
		return "", 0, fmt.Errorf("nothing was found: %w: %s", err, text)
	}
	_, err = fmt.Sscan(string(found[2]), &after)
	return string(found[1]), after, err
}

// overlay writes the changed files into dir, and what the compiler needs to use
// them instead of the product's.
func (m Mutation) overlay(root, dir string) (string, error) {
	texts, err := m.Apply(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
