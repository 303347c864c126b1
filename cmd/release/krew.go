package main

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/cmd/release/archive"
)

// What krew reads about a plugin of kubectl.
type (
	krewPlugin struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Metadata   map[string]string `json:"metadata"`
		Spec       krewSpec          `json:"spec"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector        `json:"selector"`
		URI      string              `json:"uri"`
		SHA256   string              `json:"sha256"`
		Bin      string              `json:"bin"`
		Files    []map[string]string `json:"files"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
)

// krewManifest describes the archives of kubectl-mcm among files.
func krewManifest(version string, platforms []string, files assets) ([]byte, error) {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin",
		Metadata: map[string]string{"name": "mcm"},
		Spec: krewSpec{
			Version: version, Homepage: repository,
			ShortDescription: "Explain, plan and migrate pools of machines",
			Description: "Says what a machine waits for and who has to act, what a change would do before it is applied,\n" +
				"and why a node did not join. Judges manifests, and makes boot data of nodes. Moves pools between\n" +
				"the APIs of Machine Controller Manager and Cluster API without recreating a VM, takes over from\n" +
				"Machine Controller Manager, decides about orphaned VMs, and recreates machines for VMs that a\n" +
				"restored cluster does not know.\n",
		},
	}
	for _, platform := range platforms {
		system, architecture, _ := strings.Cut(platform, "/")
		packed := pluginArchive(version, platform)
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": system, "arch": architecture}},
			URI:      repository + "/releases/download/" + version + "/" + packed,
			SHA256:   files.sha256(packed), Bin: pluginBinary(platform),
			Files: []map[string]string{{"from": pluginBinary(platform), "to": "."}, {"from": "LICENSE", "to": "."}},
		})
	}
	return yaml.Marshal(plugin)
}

func pluginArchive(version, platform string) string {
	return "kubectl-mcm_" + version + "_" + strings.ReplaceAll(platform, "/", "_") + ".tar.gz"
}

// pluginCompletion is what kubectl starts to complete the words of kubectl mcm. It is a script of the shell, which
// Windows cannot start.
const pluginCompletion = "kubectl_complete-mcm"

// pluginEntries are the files of the plugin's archive for a platform.
func pluginEntries(platform string, program, license, completion []byte) []archive.Entry {
	entries := []archive.Entry{
		{Name: pluginBinary(platform), Mode: 0o755, Data: program}, {Name: "LICENSE", Mode: 0o644, Data: license},
	}
	if !strings.HasPrefix(platform, "windows/") {
		entries = append(entries, archive.Entry{Name: pluginCompletion, Mode: 0o755, Data: completion})
	}
	return entries
}

func pluginBinary(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return "kubectl-mcm.exe"
	}
	return "kubectl-mcm"
}
