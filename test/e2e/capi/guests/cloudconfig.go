package guests

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Metadata is what a VM's metadata service tells cloud-init.
type Metadata struct {
	InstanceID, Hostname, Region, Zone string
	// Source is what the cloud's data source has as ds.meta_data, by keys without dashes.
	Source map[string]string
}

// boot is the part of a cloud-config that has to do with kubeadm.
type boot struct {
	files    map[string]string // by path
	commands []string          // in order
}

const (
	jinjaHeader = "## template: jinja\n"
	configFirst = "#cloud-config\n"
)

// readBoot reads user data as cloud-init does: unpacked and rendered. A key that is
// unknown here is an error.
func readBoot(raw []byte, m Metadata) (boot, error) {
	text, err := unpack(raw)
	if err != nil {
		return boot{}, err
	}
	if rest, found := strings.CutPrefix(text, jinjaHeader); found {
		if text, err = m.render(rest); err != nil {
			return boot{}, err
		}
	}
	if !strings.HasPrefix(text, configFirst) {
		return boot{}, fmt.Errorf("user data begins with %.30q, which is no cloud-config", text)
	}
	var config struct {
		Files []struct {
			Path, Owner, Permissions, Content, Encoding string
		} `json:"write_files"`
		Commands []string `json:"runcmd"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return boot{}, fmt.Errorf("read cloud-config: %w", err)
	}
	b := boot{files: map[string]string{}, commands: config.Commands}
	for _, f := range config.Files {
		content, err := decoded(f.Content, f.Encoding)
		if err != nil || f.Path == "" {
			return boot{}, fmt.Errorf("file %q: %w", f.Path, errors.Join(err))
		}
		b.files[f.Path] = content
	}
	return b, nil
}

// unpack returns text, compressed or not.
func unpack(raw []byte) (string, error) {
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return string(raw), nil
	}
	packed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("unpack user data: %w", err)
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		return "", fmt.Errorf("unpack user data: %w", err)
	}
	return string(text), nil
}

func decoded(content, encoding string) (string, error) {
	switch encoding {
	case "":
		return content, nil
	case "b64", "base64":
		text, err := base64.StdEncoding.DecodeString(content)
		return string(text), err
	}
	return "", fmt.Errorf("encoding %q is not known", encoding)
}

// expression is a jinja expression or statement.
var expression = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}|\{%.*?%\}`)

// render fills in what refers to the VM. cloud-init leaves what it does not know
// in the text, which no program after it would understand.
func (m Metadata) render(text string) (string, error) {
	short, _, _ := strings.Cut(m.Hostname, ".")
	known := map[string]string{
		"v1.instance_id": m.InstanceID, "v1.local_hostname": short, "v1.region": m.Region,
		"v1.availability_zone": m.Zone,
	}
	for key, value := range m.Source {
		known["ds.meta_data."+key] = value
	}
	var failed error
	out := expression.ReplaceAllStringFunc(text, func(found string) string {
		name := expression.FindStringSubmatch(found)[1]
		value, ok := known[name]
		if !ok {
			failed = fmt.Errorf("the template refers to %q, which the metadata do not have", found)
		}
		return value
	})
	return out, failed
}
