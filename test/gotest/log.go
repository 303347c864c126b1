package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of `go test -json`.
type event struct{ Action, Package, ImportPath, Test, Output, FailedBuild string }

// log is what was said so far, by whom.
type log struct {
	w        io.Writer
	packages map[string]*strings.Builder // what waits for the package's end, as in `go test -v`
	said     map[string][]string         // by whoever can fail: a build, a package or "package test"
	failed   []string
}

func newLog(w io.Writer) *log {
	return &log{w: w, packages: map[string]*strings.Builder{}, said: map[string][]string{}}
}

// read prints what go test -v would print: what a package says in one piece.
func (l *log) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			fmt.Fprint(l.w, string(line)) // go itself says it
		default:
			l.take(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (l *log) take(e event) {
	switch e.Action {
	case "build-output":
		l.said[e.ImportPath] = append(l.said[e.ImportPath], e.Output)
		fmt.Fprint(l.w, e.Output)
	case "output":
		l.output(e)
	case "fail":
		l.fail(e)
	}
	if e.Test == "" && (e.Action == "fail" || e.Action == "pass" || e.Action == "skip") {
		l.flush(e.Package)
	}
}

func (l *log) output(e event) {
	if l.packages[e.Package] == nil {
		l.packages[e.Package] = &strings.Builder{}
	}
	l.packages[e.Package].WriteString(e.Output)
	who := name(e)
	l.said[who] = append(l.said[who], e.Output)
}

// fail notes who failed. A package that fails because of its tests, and a test
// that fails because of its parts, have nothing to add.
func (l *log) fail(e event) {
	who := name(e)
	separator := "/"
	if e.Test == "" {
		separator = " "
	}
	if slices.ContainsFunc(l.failed, func(f string) bool { return strings.HasPrefix(f, who+separator) }) {
		return
	}
	if e.FailedBuild != "" {
		l.said[who] = append(l.said[e.FailedBuild], l.said[who]...)
	}
	l.failed = append(l.failed, who)
}

func (l *log) flush(pkg string) {
	if b := l.packages[pkg]; b != nil {
		fmt.Fprint(l.w, b.String())
		delete(l.packages, pkg)
	}
}

// room is how many lines what failed may take, of the 25 that a log's end shows.
const room = 20

// end prints what failed: each with the last lines of what it said, and the
// names alone of those that do not fit.
func (l *log) end() {
	for _, pkg := range slices.Sorted(maps.Keys(l.packages)) {
		l.flush(pkg) // it did not come to its end
	}
	if len(l.failed) == 0 {
		return
	}
	each := room/len(l.failed) - 1
	fmt.Fprintf(l.w, "\n=== %d failed\n", len(l.failed))
	for i, who := range l.failed {
		if i == room-1 && len(l.failed) > room {
			fmt.Fprintf(l.w, "and %d more\n", len(l.failed)-i)
			return
		}
		fmt.Fprintln(l.w, "--- FAIL:", who)
		for _, line := range last(withoutLogs(linesOf(l.said[who])), each) {
			fmt.Fprintln(l.w, "    "+line)
		}
	}
}

// message is the first line of what a test says: "file.go:1: ".
var message = regexp.MustCompile(`^\w+\.go:\d+: `)

// withoutLogs leaves out the ends of the logs of processes (fixture/process.Tail), which a
// test shows after what it says itself.
func withoutLogs(lines []string) []string {
	var kept []string
	inLog := false
	for _, line := range lines {
		switch {
		case strings.HasPrefix(message.ReplaceAllString(line, ""), "last lines of "):
			inLog = true
		case message.MatchString(line):
			inLog = false
		}
		if !inLog {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return lines
	}
	return kept
}

// last returns the last n lines.
func last(lines []string, n int) []string { return lines[max(0, len(lines)-max(0, n)):] }

// linesOf returns the lines that say something besides that it failed.
func linesOf(said []string) []string {
	var lines []string
	for line := range strings.Lines(strings.Join(said, "")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "", line == "FAIL", strings.HasPrefix(line, "=== "), strings.HasPrefix(line,
			"--- FAIL"), strings.HasPrefix(line, "FAIL\t"):
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

func name(e event) string {
	if e.Test == "" {
		return e.Package
	}
	return e.Package + " " + e.Test
}
