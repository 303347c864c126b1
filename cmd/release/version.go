package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// series are the releases that speak one contract, as metadata.yaml lists them.
type series struct {
	Major    uint   `json:"major"`
	Minor    uint   `json:"minor"`
	Contract string `json:"contract"`
}

// choose returns the version of the release: the one asked for, which has to be
// of a series of metadata, or the first of the last series.
func choose(metadata []byte, asked string) (string, error) {
	var listed struct {
		APIVersion    string   `json:"apiVersion"`
		Kind          string   `json:"kind"`
		ReleaseSeries []series `json:"releaseSeries"`
	}
	if err := yaml.UnmarshalStrict(metadata, &listed); err != nil {
		return "", fmt.Errorf("metadata.yaml: %w", err)
	}
	all := listed.ReleaseSeries
	if len(all) == 0 {
		return "", fmt.Errorf("metadata.yaml lists no series of releases")
	}
	if asked == "" {
		newest := all[len(all)-1]
		return fmt.Sprintf("v%d.%d.0", newest.Major, newest.Minor), nil
	}
	if asked[0] != 'v' {
		return "", fmt.Errorf("version %q does not begin with v", asked)
	}
	v, err := version.ParseSemantic(asked)
	if err != nil {
		return "", fmt.Errorf("version %q: %w", asked, err)
	}
	for _, s := range all {
		if s.Major == v.Major() && s.Minor == v.Minor() {
			return asked, nil
		}
	}
	return "", fmt.Errorf("version %s is of no series in metadata.yaml; add one", asked)
}
