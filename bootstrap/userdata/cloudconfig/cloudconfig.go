// Package cloudconfig renders boot data as a cloud-config, which cloud-init reads. All of it is one
// stage: cloud-init writes files once per machine, and a unit of systemd that runs at each boot does
// the rest.
package cloudconfig

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/content"
)

// document has the keys of cloud-config. Those that are not set do not appear.
type document struct {
	APT              map[string]any `json:"apt,omitempty"`
	Hostname         string         `json:"hostname,omitempty"`
	NTP              map[string]any `json:"ntp,omitempty"`
	PreserveHostname *bool          `json:"preserve_hostname,omitempty"`
	Run              [][]string     `json:"runcmd"`
	SSHKeys          []string       `json:"ssh_authorized_keys,omitempty"`
	WriteFiles       []file         `json:"write_files"`
}

type file struct {
	Path        string `json:"path"`
	Permissions string `json:"permissions"`
	Encoding    string `json:"encoding,omitempty"`
	Append      bool   `json:"append,omitempty"`
	Content     string `json:"content"`
}

// Render returns the cloud-config of a plan. Text stays plain, so that the manager finds its
// placeholders.
func Render(p *content.Plan) ([]byte, error) {
	d := document{SSHKeys: p.SSHKeys, Run: run(p)}
	for _, f := range slices.Concat(p.Files, p.UnitFiles()) {
		d.WriteFiles = append(d.WriteFiles, render(f))
	}
	if p.Hostname != "" {
		d.Hostname, d.PreserveHostname = p.Hostname, new(bool)
	}
	if len(p.NTP) > 0 {
		d.NTP = map[string]any{"enabled": true, "servers": p.NTP}
	}
	d.APT = aptProxy(p.APTProxy)
	body, err := yaml.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write the cloud-config: %w", err)
	}
	var out strings.Builder
	out.WriteString("#cloud-config\n")
	for _, line := range p.Comments {
		fmt.Fprintf(&out, "# %s\n", line)
	}
	out.Write(body)
	return []byte(out.String()), nil
}

func aptProxy(p *content.APTProxy) map[string]any {
	if p == nil {
		return nil
	}
	settings := map[string]any{}
	if p.HTTP != "" {
		settings["http_proxy"] = p.HTTP
	}
	if p.HTTPS != "" {
		settings["https_proxy"] = p.HTTPS
	}
	return settings
}

func render(f content.File) file {
	rendered := file{
		Path: f.Path, Permissions: fmt.Sprintf("%04o", f.Mode), Append: f.Append, Content: string(f.Content),
	}
	if !content.IsText(f.Content) {
		rendered.Encoding, rendered.Content = "b64", base64.StdEncoding.EncodeToString(f.Content)
	}
	return rendered
}

// run masks and enables units, and starts the one that does the rest without waiting for it: it
// may wait for this very boot to finish.
func run(p *content.Plan) [][]string {
	commands := [][]string{{"systemctl", "daemon-reload"}}
	for _, unit := range p.Units {
		if unit.Mask {
			commands = append(commands, []string{"systemctl", "mask", "--now", unit.Name})
		}
		if unit.Enable {
			commands = append(commands, []string{"systemctl", "enable", unit.Name})
		}
	}
	return append(commands, []string{"systemctl", "start", "--no-block", p.Start})
}
