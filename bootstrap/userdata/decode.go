package userdata

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode reads a spec, fills in what it leaves out, and judges it. The error names every field that is
// wrong, and what to write instead.
func Decode(document []byte) (*MachineUserData, error) {
	data, err := single(document)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w; correct the YAML", err)
	}
	if err := checkKind(asJSON); err != nil {
		return nil, err
	}
	m := &MachineUserData{}
	unknown, err := kjson.UnmarshalStrict(asJSON, m)
	if err != nil {
		return nil, fmt.Errorf("read the spec: %w; docs/userdata.md has the type of each field", err)
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("read the spec: %w; remove it, or correct its name by docs/userdata.md",
			errors.Join(unknown...))
	}
	m.Spec.setDefaults()
	return m, m.Spec.validate()
}

// single returns the only document of a file.
func single(data []byte) ([]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var found []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the spec: %w; correct the YAML", err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		if found != nil {
			return nil, errors.New("read the spec: the file has several documents; give each spec a file of its own")
		}
		found = document
	}
	if found == nil {
		return nil, errors.New("read the spec: the file is empty; config/samples/userdata has an example")
	}
	return found, nil
}

// checkKind is first, so that somebody with another kind does not read about its fields.
func checkKind(asJSON []byte) error {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(asJSON, &kind); err != nil {
		return fmt.Errorf("read the spec: it is no object: %w; write apiVersion, kind and spec", err)
	}
	if kind.APIVersion != APIVersion || kind.Kind != Kind {
		return fmt.Errorf("read the spec: it is %q of %q; write kind: %s and apiVersion: %s",
			kind.Kind, kind.APIVersion, Kind, APIVersion)
	}
	return nil
}
