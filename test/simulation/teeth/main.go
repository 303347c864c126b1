package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// seeds is within how many each bug must be found.
const seeds = 2000

func main() {
	only := flag.String("only", "", "only the bugs whose name has this in it")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *only); err != nil {
		fmt.Fprintln(os.Stderr, "teeth:", err)
		os.Exit(1)
	}
}

// run prints a row of docs/proof.md for each bug.
func run(ctx context.Context, out io.Writer, only string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "| deliberate bug | found by | after seeds |\n|---|---|---|")
	var failed error
	for _, b := range Bugs() {
		if !strings.Contains(b.Name, only) {
			continue
		}
		rule, after, err := Find(ctx, root, b)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", b.Name, err))
			rule, after = "**not found**", seeds
		}
		fmt.Fprintf(out, "| %s | %s | %d |\n", b.Name, rule, after)
	}
	return failed
}

// Patched returns the text of a file with the bug in it, by file.
func (b Bug) Patched(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range b.Edits {
		text, known := texts[e.File]
		if !known {
			content, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, err
			}
			text = string(content)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s has the text %d times, not once: %q", e.File, n, e.Old)
		}
		texts[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return texts, nil
}

// Find builds the simulation with a bug in it and runs it until it finds a
// violation. It returns the invariant's name and the number of seeds.
func Find(ctx context.Context, root string, b Bug) (rule string, after int, err error) {
	dir, err := os.MkdirTemp("", "teeth")
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return "", 0, err
	}
	program := filepath.Join(dir, "simulation")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program,
		"./test/simulation") //nolint:gosec // our own
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("build: %w: %s", err, text)
	}
	text, err := exec.CommandContext(ctx, program, "-find", fmt.Sprintf("-seeds=%d",
		seeds)).CombinedOutput() //nolint:gosec // our own
	found := regexp.MustCompile(`found (\w+) after (\d+) seeds`).FindSubmatch(text)
	if found == nil {
		return "", 0, fmt.Errorf("nothing was found: %w: %s", err, text)
	}
	_, err = fmt.Sscan(string(found[2]), &after)
	return string(found[1]), after, err
}

// overlay writes the patched files into dir, and what the compiler needs to use
// them instead of the product's.
func (b Bug) overlay(root, dir string) (string, error) {
	texts, err := b.Patched(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
