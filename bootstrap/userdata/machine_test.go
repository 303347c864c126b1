package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// machine is what a reader of the boot data writes onto its disk.
type machine struct {
	files map[string][]byte
	modes map[string]int
	run   [][]string // only of cloud-init
}

// read plays cloud-init and Ignition.
func read(t *testing.T, data []byte) machine {
	t.Helper()
	if bytes.HasPrefix(data, []byte("{")) {
		return readIgnition(t, data)
	}
	return readCloudConfig(t, data)
}

func readCloudConfig(t *testing.T, data []byte) machine {
	t.Helper()
	if !bytes.HasPrefix(data, []byte("#cloud-config\n")) {
		t.Fatal("cloud-init knows it by its first line, which is missing")
	}
	var d struct {
		WriteFiles []struct{ Path, Permissions, Encoding, Content string } `json:"write_files"`
		Run        [][]string                                              `json:"runcmd"`
	}
	if err := yaml.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	m := machine{files: map[string][]byte{}, modes: map[string]int{}, run: d.Run}
	for _, f := range d.WriteFiles {
		content := []byte(f.Content)
		if f.Encoding == "b64" {
			content = unbase64(t, f.Content)
		}
		m.add(t, f.Path, f.Permissions, content)
	}
	return m
}

func readIgnition(t *testing.T, data []byte) machine {
	t.Helper()
	var d struct {
		Storage struct {
			Files []struct {
				Path     string
				Mode     int
				Contents struct{ Compression, Source string }
			}
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	m := machine{files: map[string][]byte{}, modes: map[string]int{}}
	for _, f := range d.Storage.Files {
		var content []byte
		if packed, ok := strings.CutPrefix(f.Contents.Source, "data:;base64,"); ok {
			r, err := gzip.NewReader(bytes.NewReader(unbase64(t, packed)))
			if err != nil {
				t.Fatal(err)
			}
			if content, err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		} else {
			plain, err := url.PathUnescape(strings.TrimPrefix(f.Contents.Source, "data:,"))
			if err != nil {
				t.Fatal(err)
			}
			content = []byte(plain)
		}
		m.add(t, f.Path, "0"+strconv.FormatInt(int64(f.Mode), 8), content)
	}
	return m
}

func (m machine) add(t *testing.T, path, permissions string, content []byte) {
	t.Helper()
	if _, twice := m.files[path]; twice {
		t.Errorf("%s is written twice", path)
	}
	mode, err := strconv.ParseInt(permissions, 8, 32)
	if err != nil {
		t.Errorf("%s: permissions %q", path, permissions)
	}
	m.files[path], m.modes[path] = content, int(mode)
}

func unbase64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
