package gcptest

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// methodsUsed are what the driver calls; some are those of the double's owner.
func methodsUsed() []string {
	return []string{
		"instances.insert", "instances.get", "instances.delete", "instances.aggregatedList", "instances.reset",
		"instances.start", "instances.resume", "instances.setLabels", "instances.setDeletionProtection",
		"instances.getSerialPortOutput", "disks.list", "disks.aggregatedList", "disks.delete", "disks.get",
		"disks.setLabels", "machineTypes.get",
		"zoneOperations.get", "instanceGroups.listInstances", "instanceGroups.addInstances",
		"instanceGroups.removeInstances",
	}
}

// discovered is a part of Google's discovery document of an API.
type discovered struct {
	Type, Format, Pattern, Description string
	Ref                                string `json:"$ref"`
	ReadOnly                           bool
	Enum                               []string
	Items                              *discovered
	AdditionalProperties               *discovered
	Properties                         map[string]discovered
	Annotations                        struct{ Required []string }
}

// field distils a field. What only the cloud writes is marked or, in older fields, described so.
func (d discovered) field() field {
	f := field{
		Type: d.Type, Format: d.Format, Pattern: d.Pattern, Ref: d.Ref, Enum: d.Enum,
		ReadOnly: d.ReadOnly || strings.HasPrefix(d.Description, "[Output Only]"), Required: d.Annotations.Required,
	}
	for of, into := range map[*discovered]**field{d.Items: &f.Items, d.AdditionalProperties: &f.Values} {
		if of != nil {
			inner := of.field()
			*into = &inner
		}
	}
	if len(d.Properties) > 0 {
		f.Fields = map[string]field{}
		for name, property := range d.Properties {
			f.Fields[name] = property.field()
		}
	}
	return f
}

// TestSchema distils the schema again from the discovery document, which module
// google.golang.org/api has as compute/v1/compute-api.json: the double would otherwise allow what
// its author believes. GCPTEST_DISCOVERY names the file, and CLOUDTEST_UPDATE=1 writes the result.
func TestSchema(t *testing.T) {
	t.Parallel()
	file := os.Getenv("GCPTEST_DISCOVERY")
	if file == "" {
		t.Skip("GCPTEST_DISCOVERY names no discovery document")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Revision  string
		Schemas   map[string]discovered
		Resources map[string]struct {
			Methods map[string]struct {
				ID, HTTPMethod, Path string
				Parameters           map[string]struct{ Type, Location string }
				Request, Response    discovered
			}
		}
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	out := schema{
		Source: "compute/v1/compute-api.json of module google.golang.org/api, revision " + api.Revision,
		License: "Copyright Google LLC. BSD 3-Clause, see the file LICENSE of that module. Names, types and constraints " +
			"only; distilled by TestSchema.",
		Methods: map[string]method{}, Schemas: map[string]field{},
	}
	for _, name := range methodsUsed() {
		resource, action, _ := strings.Cut(name, ".")
		m := api.Resources[resource].Methods[action]
		used := method{HTTP: m.HTTPMethod, Path: m.Path, Request: m.Request.Ref, Response: m.Response.Ref}
		used.Query = map[string]string{}
		for parameter, p := range m.Parameters {
			if p.Location == "query" {
				used.Query[parameter] = p.Type
			}
		}
		out.Methods[name] = used
		for _, root := range []string{used.Request, used.Response} {
			closure(out.Schemas, api.Schemas, root)
		}
	}
	got, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(regexp.MustCompile(`\n {3,}`).ReplaceAll(got, nil), '\n')
	if os.Getenv("CLOUDTEST_UPDATE") != "" {
		if err := os.WriteFile("testdata/schema.json", got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, schemaText) {
		t.Error("testdata/schema.json is not what the document says; CLOUDTEST_UPDATE=1 writes it")
	}
}

// closure adds a schema and all that it refers to.
func closure(into map[string]field, all map[string]discovered, name string) {
	if _, known := into[name]; known || name == "" {
		return
	}
	f := all[name].field()
	into[name] = f
	var follow func(field)
	follow = func(f field) {
		closure(into, all, f.Ref)
		for _, inner := range []*field{f.Items, f.Values} {
			if inner != nil {
				follow(*inner)
			}
		}
		for _, inner := range f.Fields {
			follow(inner)
		}
	}
	follow(f)
}
