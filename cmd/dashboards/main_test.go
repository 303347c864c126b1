package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDashboards: what is installed is what the code says.
func TestDashboards(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "config", "monitoring", "dashboards")
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) != len(all()) {
		t.Errorf("%d files (%v), want %d", len(files), err, len(all()))
	}
	kustomization, err := os.ReadFile(filepath.Join(folder, "..", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all() {
		want, err := d.file()
		if err != nil {
			t.Fatal(err)
		}
		name := d.UID + ".json"
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is stale (%v): run make generate", name, err)
		}
		if !strings.Contains(string(kustomization), "dashboards/"+name+"\n") {
			t.Errorf("config/monitoring/kustomization.yaml does not have %s", name)
		}
	}
}

// TestPanelsFit: Grafana puts panels that overlap somewhere else, and shows one of two with the
// same number.
func TestPanelsFit(t *testing.T) {
	t.Parallel()
	for _, d := range all() {
		numbers := map[int]bool{}
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			if numbers[p.ID] || p.Title == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d %q", d.UID, p.ID, p.Title)
			}
			numbers[p.ID] = true
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					if other := taken[at]; other != "" || at[0] >= width {
						t.Fatalf("%s: %q does not fit, beside %q", d.UID, p.Title, other)
					}
					taken[at] = p.Title
				}
			}
		}
	}
}
