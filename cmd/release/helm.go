package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/archive"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/chart"
)

// chartFiles returns the Helm chart of the bundles that have been written.
func (r *release) chartFiles() (map[string][]byte, error) {
	var parts []chart.Bundle
	for _, b := range bundles() {
		part, wanted := partOf(b)
		if !wanted {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.out, b.label, r.version, b.file))
		if err != nil {
			return nil, err
		}
		part.Manifests = text
		parts = append(parts, part)
	}
	image, digest, _ := strings.Cut(r.reference(programs()[0]), "@")
	name, tag := image, ""
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		name, tag = image[:colon], image[colon+1:]
	}
	return chart.Files(chart.Release{Version: r.version, Repository: name, Tag: tag, Digest: digest}, parts)
}

// partOf is a bundle as a part of the chart, without its manifests. wanted reports whether
// it is one.
func partOf(b bundle) (part chart.Bundle, wanted bool) {
	part.Name, part.Value = strings.TrimSuffix(strings.TrimSuffix(b.file, ".yaml"), "-components"), "clusterAPI"
	switch {
	case b.file == "native-standalone-components.yaml":
		part.Value = "native"
	case strings.HasPrefix(b.config, "self-hosted/"):
		part.Namespace, part.Namespaces = "capmcm-control-plane-system", "selfHosted.namespaces"
		part.Each = b.config == "self-hosted/namespace"
	case b.config == monitoring:
		part.Value, part.Namespace = monitoring, monitoring
	case b.provider == "", b.provider == "RuntimeExtensionProvider":
		return part, false
	}
	return part, true
}

// chart writes the Helm chart as a folder.
func (r *release) chart() error {
	files, err := r.chartFiles()
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	folder := filepath.Join(r.out, "chart", r.version)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a release is for everybody to read
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil { //nolint:gosec // likewise
			return err
		}
	}
	return nil
}

// addChart adds the Helm chart as helm package makes it.
func (r *release) addChart(files assets) error {
	all, err := r.chartFiles()
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	var entries []archive.Entry
	for _, name := range slices.Sorted(maps.Keys(all)) {
		entries = append(entries, archive.Entry{Name: name, Mode: 0o644, Data: all[name]})
	}
	packed, err := archive.TarGz(entries)
	files[chart.Name+"-"+strings.TrimPrefix(r.version, "v")+".tgz"] = packed
	return err
}
