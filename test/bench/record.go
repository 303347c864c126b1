package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// kept is the folder with what runs have found, one file for each number of
// machines.
var kept = filepath.Join("docs", "performance")

// keptPool is the size of pools that the tables of the document compare.
const keptPool = 10

// record is what one run found.
type record struct {
	N             int     `json:"n"`
	Pool          int     `json:"pool"` // machines of each
	Measured      string  `json:"measured"`
	On            machine `json:"on"`
	LeaseSeconds  float64 `json:"leaseSeconds"`  // how often a kubelet renews its lease
	NodeLifecycle bool    `json:"nodeLifecycle"` // whether that controller ran
	Create        phase   `json:"create"`
	// CreateRateUsed is the share of -create-rate that Create used.
	CreateRateUsed float64  `json:"createRateUsed,omitzero"`
	Steady         steady   `json:"steady"`
	Roll           phase    `json:"roll"`
	Startup        startup  `json:"startup"`
	Memory         memory   `json:"memory"`
	Violations     []string `json:"violations"` // of the bounds
}

// phase is what a change of some machines cost.
type phase struct {
	Machines             int     `json:"machines"`
	Seconds              float64 `json:"seconds"`
	RequestsPerMachine   float64 `json:"requestsPerMachine"`
	CloudCallsPerMachine float64 `json:"cloudCallsPerMachine"`
	// Requests are counts by verb and resource, as "patch machines/status".
	Requests map[string]int `json:"requests,omitempty"`
	// CloudCalls are counts by operation.
	CloudCalls map[string]int `json:"cloudCalls,omitempty"`
	// ToRunning are the seconds from when a Machine was there until it was Running.
	ToRunning quantiles `json:"toRunning"`
	// OwnWork are the seconds of ToRunning without those that the cloud needs for a VM.
	OwnWork quantiles `json:"ownWork,omitzero"`
	// Reconcile are the seconds of a pass, by controller.
	Reconcile map[string]quantiles `json:"reconcile"`
	// CPUSeconds are those of each program, until the last machine was Running.
	CPUSeconds map[string]float64 `json:"cpuSeconds"`
}

// steady is what it cost that nothing changed.
type steady struct {
	Requests   int                `json:"requests"`
	CloudCalls int                `json:"cloudCalls"`
	Seconds    float64            `json:"seconds"`
	CPUSeconds map[string]float64 `json:"cpuSeconds"`
}

// startup is what it took a manager to start beside all machines.
type startup struct {
	// Seconds are from the start of the process until a Machine was there that was
	// asked for before; VMSeconds until its VM was asked for.
	Seconds   float64 `json:"seconds"`
	VMSeconds float64 `json:"vmSeconds"`
	// AfterCrashSeconds are Seconds where the leases of the manager before had to
	// run out.
	AfterCrashSeconds float64 `json:"afterCrashSeconds"`
	Requests          int     `json:"requests"` // until quiet
	CloudCalls        int     `json:"cloudCalls"`
	PeakMiB           float64 `json:"peakMiB"`
}

// memory is the manager's: without a machine, and with all when nothing changes.
type memory struct {
	EmptyMiB       float64 `json:"emptyMiB"`
	EmptyHeapMiB   float64 `json:"emptyHeapMiB"`
	FullMiB        float64 `json:"fullMiB"`
	FullHeapMiB    float64 `json:"fullHeapMiB"`
	PeakMiB        float64 `json:"peakMiB"`        // resident, while machines are made, stay and are rolled
	PerThousandMiB float64 `json:"perThousandMiB"` // of the peak, everything included
}

// write keeps a record.
func (r *record) write(root string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Join(root, kept)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", r.N)), append(rounded(text), '\n'), 0o644)
}

// records are all that are kept, the smallest number of machines first.
func records(root string) ([]record, error) {
	files, err := filepath.Glob(filepath.Join(root, kept, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b record) int { return a.N - b.N })
	return all, nil
}

// earlier returns the kept record of the fewest machines, if those are fewer and
// their pools of the same size; nil else.
func earlier(root string, than *record) *record {
	all, err := records(root)
	if err != nil || len(all) == 0 || all[0].N >= than.N || all[0].Pool != than.Pool {
		return nil
	}
	return &all[0]
}
