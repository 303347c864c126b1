package gcptest

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed testdata/schema.json
var schemaText []byte

// schema is what Google's discovery document says of the methods that the driver calls.
type schema struct {
	Source  string            `json:"source"`
	License string            `json:"license"`
	Methods map[string]method `json:"methods"`
	Schemas map[string]field  `json:"schemas"`
}

type method struct {
	HTTP     string            `json:"http"`
	Path     string            `json:"path"`
	Query    map[string]string `json:"query,omitempty"` // types by name
	Request  string            `json:"request,omitempty"`
	Response string            `json:"response"`
}

// field is a value: of a type, or of the schema Ref.
type field struct {
	Type     string           `json:"type,omitempty"`
	Format   string           `json:"format,omitempty"`
	Pattern  string           `json:"pattern,omitempty"`
	Ref      string           `json:"ref,omitempty"`
	Enum     []string         `json:"enum,omitempty"`
	ReadOnly bool             `json:"ro,omitempty"`
	Required []string         `json:"required,omitempty"` // by which methods
	Items    *field           `json:"items,omitempty"`
	Values   *field           `json:"values,omitempty"`
	Fields   map[string]field `json:"fields,omitempty"`
}

func loadSchema() schema {
	var s schema
	if err := json.Unmarshal(schemaText, &s); err != nil {
		panic(err) // the file is part of the program
	}
	return s
}

// match returns the method of a request, and the values in its path.
func (s schema) match(verb, path string) (name string, values map[string]string) {
	got := strings.Split(path, "/")
	for _, name := range slices.Sorted(maps.Keys(s.Methods)) {
		m := s.Methods[name]
		want := strings.Split(m.Path, "/")
		if m.HTTP != verb || len(want) != len(got) {
			continue
		}
		values = map[string]string{}
		same := true
		for i, part := range want {
			if strings.HasPrefix(part, "{") {
				values[strings.Trim(part, "{}")] = got[i]
			} else {
				same = same && part == got[i]
			}
		}
		if same {
			return name, values
		}
	}
	return "", nil
}

// checker judges a value against the schema.
type checker struct {
	schema

	method  string // whose request it is; empty for an answer
	request bool
}

// checkQuery returns what is wrong with the parameters of a request.
func (s schema) checkQuery(name string, query url.Values) error {
	known := s.Methods[name].Query
	for key, values := range query {
		kind, ok := known[key]
		switch {
		case key == "fields" && s.Methods[name].HTTP == http.MethodGet:
		case !ok:
			return fmt.Errorf("unknown parameter %q", key)
		case kind == "integer":
			if _, err := strconv.Atoi(values[0]); err != nil {
				return fmt.Errorf("parameter %q is no number", key)
			}
		case kind == "boolean" && values[0] != "true" && values[0] != "false":
			return fmt.Errorf("parameter %q is neither true nor false", key)
		}
	}
	return nil
}

// check returns what is wrong with a value.
func (c checker) check(path string, f field, v any) error {
	if c.request && f.ReadOnly {
		return fmt.Errorf("%s is written by the cloud alone", path)
	}
	if f.Ref != "" {
		f = c.Schemas[f.Ref]
	}
	switch f.Type {
	case "object":
		return c.object(path, f, v)
	case "array":
		all, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%s is no list", path)
		}
		for i, item := range all {
			if err := c.check(fmt.Sprintf("%s[%d]", path, i), *f.Items, item); err != nil {
				return err
			}
		}
		return nil
	}
	return scalar(path, f, v)
}

func (c checker) object(path string, f field, v any) error {
	all, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no object", path)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		inner, known := f.Fields[key]
		if !known && f.Values != nil {
			inner, known = *f.Values, true
		}
		if !known {
			return fmt.Errorf("%s has the unknown field %q", path, key)
		}
		if err := c.check(path+"."+key, inner, all[key]); err != nil {
			return err
		}
	}
	return c.required(path, f, all)
}

// required returns an error if a request lacks a field that its method needs.
func (c checker) required(path string, f field, all map[string]any) error {
	for name, inner := range f.Fields {
		if _, there := all[name]; !there && c.request && slices.Contains(inner.Required, "compute."+c.method) {
			return fmt.Errorf("%s lacks the required field %q", path, name)
		}
	}
	return nil
}

// scalar judges a value that is no object or list. Large numbers are strings.
func scalar(path string, f field, v any) error {
	ok := false
	switch f.Type {
	case "boolean":
		_, ok = v.(bool)
	case "integer", "number":
		_, ok = v.(float64)
	case "string":
		return text(path, f, v)
	case "any":
		ok = true
	}
	if !ok {
		return fmt.Errorf("%s is %v and has to be of type %s", path, v, f.Type)
	}
	return nil
}

func text(path string, f field, v any) error {
	s, ok := v.(string)
	switch {
	case !ok:
		return fmt.Errorf("%s is %v and has to be of type string", path, v)
	case len(f.Enum) > 0 && !slices.Contains(f.Enum, s):
		return fmt.Errorf("%s is %q and none of %v", path, s, f.Enum)
	case f.Pattern != "" && regexp.MustCompile(f.Pattern).FindString(s) != s:
		return fmt.Errorf("%s is %q and does not match %s", path, s, f.Pattern)
	}
	var err error
	switch f.Format {
	case "int64":
		_, err = strconv.ParseInt(s, 10, 64)
	case "uint64":
		_, err = strconv.ParseUint(s, 10, 64)
	case "byte":
		_, err = base64.StdEncoding.DecodeString(s)
	}
	if err != nil {
		return fmt.Errorf("%s is %q and has to be of format %s", path, s, f.Format)
	}
	return nil
}
