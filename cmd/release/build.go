package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// compile returns the program at pkg for a platform. The same source and Go give
// the same bytes, whatever folder and machine they are built in.
func (r *release) compile(ctx context.Context, pkg, platform string) ([]byte, error) {
	system, architecture, found := strings.Cut(platform, "/")
	if !found {
		return nil, fmt.Errorf("platform %q is not of the form os/architecture", platform)
	}
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	file := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w -buildid= -X main.version="+r.version+" -X main.commit="+r.commit(ctx), "-o", file, pkg)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+architecture,
		"GOAMD64=v1", "GOARM64=v8.0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s for %s: %w\n%s", pkg, platform, err, said)
	}
	return os.ReadFile(file)
}

// commit returns the commit that the working tree is at; empty: the tree has
// changes, or is in no repository.
func (r *release) commit(ctx context.Context) string {
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil || changes != "" {
		return ""
	}
	hash, err := r.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return ""
	}
	return hash
}

// created returns the time that everything of a release bears: SOURCE_DATE_EPOCH,
// as for other reproducible builds, or else that of the commit.
func (r *release) created(ctx context.Context) (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		var err error
		if seconds, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, fmt.Errorf("no commit to take the time from: %w; set SOURCE_DATE_EPOCH", err)
		}
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(n, 0).UTC(), nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.root, &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimSpace(out.String()), nil
}
