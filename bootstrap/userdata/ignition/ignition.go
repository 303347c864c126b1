// Package ignition renders boot data as a config of Ignition, specification 3.4, which Flatcar reads
// at its first boot.
package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/userdata/content"
)

const (
	specVersion = "3.4.0"
	defaultUser = "core"
)

type config struct {
	Ignition ignition `json:"ignition"`
	Passwd   *passwd  `json:"passwd,omitempty"`
	Storage  storage  `json:"storage"`
	Systemd  systemd  `json:"systemd"`
}

type ignition struct {
	Version string `json:"version"`
}

type passwd struct {
	Users []user `json:"users"`
}

type user struct {
	Name              string   `json:"name"`
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys"`
}

type storage struct {
	Files []file `json:"files"`
}

type file struct {
	Path      string   `json:"path"`
	Overwrite bool     `json:"overwrite"`
	Mode      int      `json:"mode"`
	Contents  contents `json:"contents"`
}

type contents struct {
	Compression string `json:"compression,omitempty"`
	Source      string `json:"source"`
}

type systemd struct {
	Units []unit `json:"units"`
}

type unit struct {
	Name    string `json:"name"`
	Enabled *bool  `json:"enabled,omitempty"`
	Mask    bool   `json:"mask,omitempty"`
}

// Render returns the config of a plan. Everything with a placeholder is a file in a data URL, percent
// encoded: the manager fills in encoded placeholders where there are no plain ones, and never those
// that are compressed. So units are files, too.
func Render(p *content.Plan) ([]byte, error) {
	c := config{Ignition: ignition{Version: specVersion}, Systemd: systemd{Units: []unit{}}}
	if len(p.SSHKeys) > 0 {
		c.Passwd = &passwd{Users: []user{{Name: defaultUser, SSHAuthorizedKeys: p.SSHKeys}}}
	}
	for _, f := range files(p) {
		rendered, err := render(f)
		if err != nil {
			return nil, err
		}
		c.Storage.Files = append(c.Storage.Files, rendered)
	}
	for _, u := range p.Units {
		if u.Enable || u.Mask {
			rendered := unit{Name: u.Name, Mask: u.Mask}
			if u.Enable {
				rendered.Enabled = &u.Enable
			}
			c.Systemd.Units = append(c.Systemd.Units, rendered)
		}
	}
	return marshal(c)
}

// marshal leaves < and & as they are: the manager compares text.
func marshal(c config) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("write the ignition config: %w", err)
	}
	return out.Bytes(), nil
}

// files are those of the plan, and what other formats have keys for.
func files(p *content.Plan) []content.File {
	comments := strings.Join(p.Comments, "\n") + "\n"
	list := []content.File{{Path: content.GeneratorPath, Content: []byte(comments), Mode: 0o644}}
	if p.Hostname != "" {
		list = append(list, content.File{Path: content.HostnamePath, Content: []byte(p.Hostname + "\n"), Mode: 0o644})
	}
	if len(p.NTP) > 0 {
		servers := "[Time]\nNTP=" + strings.Join(p.NTP, " ") + "\n"
		list = append(list, content.File{Path: content.NTPPath, Content: []byte(servers), Mode: 0o644})
	}
	return slices.Concat(list, p.Files, p.UnitFiles())
}

func render(f content.File) (file, error) {
	rendered := file{Path: f.Path, Overwrite: true, Mode: f.Mode}
	rendered.Contents.Source = "data:," + url.PathEscape(string(f.Content))
	if bytes.Contains(f.Content, []byte("<<")) {
		return rendered, nil
	}
	packed, err := pack(f.Content)
	if err != nil {
		return file{}, fmt.Errorf("compress %s: %w", f.Path, err)
	}
	if source := "data:;base64," + packed; len(source) < len(rendered.Contents.Source) {
		rendered.Contents = contents{Compression: "gzip", Source: source}
	}
	return rendered, nil
}

// pack gives equal bytes for equal data.
func pack(data []byte) (string, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}
