package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// usage returns the CPU seconds and the peak resident memory of a process.
func usage(pid int) (cpuSeconds, peakMiB float64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The name in parentheses may hold spaces; utime and stime are the 12th and
	// 13th field behind it, in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(fields))
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, err
		}
		cpuSeconds += ticks / 100
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return cpuSeconds, kib / 1024, err
		}
	}
	return cpuSeconds, 0, fmt.Errorf("read /proc/%d/status: no peak", pid)
}
