package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// managerProgram is the manager's program.
const managerProgram = "cluster-api-provider-mcm"

// machine is what was measured on.
type machine struct {
	CPU       string  `json:"cpu"`
	Cores     int     `json:"cores"`
	MemoryGiB float64 `json:"memoryGiB"`
	Go        string  `json:"go"`
}

func hardware() machine {
	found := machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version()}
	if model, err := field("/proc/cpuinfo", "model name"); err == nil {
		found.CPU = model
	}
	if kib, err := kibibytes("/proc/meminfo", "MemTotal"); err == nil {
		found.MemoryGiB = float64(int(kib/1024/1024*10)) / 10
	}
	return found
}

// memory returns the resident memory of the manager, and after a collection of
// garbage what lives on its heap.
func (b *bench) memory(ctx context.Context) (residentMiB, heapMiB float64, err error) {
	kib, err := kibibytes(fmt.Sprintf("/proc/%d/status", b.manager.PID()), "VmRSS")
	if err != nil {
		return 0, 0, err
	}
	body, err := b.ask(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, 0, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			bytes, err := strconv.ParseFloat(value, 64)
			return kib / 1024, bytes / (1 << 20), err
		}
	}
	return 0, 0, fmt.Errorf("the manager does not say how large its heap is: %w", lines.Err())
}

// peak returns the most resident memory that a process ever had, in MiB.
func peak(pid int) (float64, error) {
	kib, err := kibibytes(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	return kib / 1024, err
}

// kibibytes reads an entry of a file of the kernel's that is in kB.
func kibibytes(path, name string) (float64, error) {
	text, err := field(path, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
}

// field reads an entry of a file of the kernel's with lines "name: value".
func field(path, name string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("read %s: no %s", path, name)
}

// cpuTimes returns the CPU seconds of the programs that this one has started, by
// their names. One that ends meanwhile is left out.
func cpuTimes() map[string]float64 {
	found := map[string]float64{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, path := range stats {
		parent, seconds, err := cpuTime(path)
		if err != nil || parent != os.Getpid() {
			continue
		}
		program, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(string(program), "\x00")
		found[filepath.Base(name)] += seconds
	}
	return found
}

// cpuTime reads the parent and the CPU seconds of a process.
func cpuTime(path string) (parent int, seconds float64, err error) {
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	// The name in parentheses may hold spaces; behind it come the state and the
	// parent, and as 12th and 13th utime and stime, in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("read %s: %d fields", path, len(fields))
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, err
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, err
		}
		seconds += ticks / 100
	}
	return parent, seconds, nil
}
