package gcptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// selection is what a request wants of a value, by field; an empty one wants all of it.
type selection map[string]selection

// every is the selector of all entries of a map, or of all fields of an object.
const every = "*"

// parseFields reads the parameter fields in Google's grammar of partial responses: selectors with
// commas between, each a path with slashes, and the selectors in the last of it in parentheses, e.g.
// "next,items/*/vms(name,tags/items)".
func parseFields(text string) (selection, error) {
	all := selection{}
	rest, err := all.read(text)
	if err == nil && rest != "" {
		err = fmt.Errorf("Invalid field selection %s", rest) //nolint:staticcheck // the API's words
	}
	return all, err
}

// read adds the selectors that text begins with, and returns what follows them.
func (s selection) read(text string) (rest string, err error) {
	for {
		if rest, err = s.path(text); err != nil || !strings.HasPrefix(rest, ",") {
			return rest, err
		}
		text = rest[1:]
	}
}

// path adds one selector. Of two for the same field the wider one counts.
func (s selection) path(text string) (rest string, err error) {
	name, rest := text, ""
	if end := strings.IndexAny(text, ",/()"); end >= 0 {
		name, rest = text[:end], text[end:]
	}
	if name == "" {
		return "", fmt.Errorf("Invalid field selection %s", text) //nolint:staticcheck // the API's words
	}
	inner := selection{}
	known, twice := s[name]
	if s[name] = inner; twice {
		maps.Copy(inner, known)
	}
	switch {
	case strings.HasPrefix(rest, "/"):
		rest, err = inner.path(rest[1:])
	case strings.HasPrefix(rest, "("):
		if rest, err = inner.read(rest[1:]); err == nil && !strings.HasPrefix(rest, ")") {
			return "", fmt.Errorf("Invalid field selection %s", text) //nolint:staticcheck // the API's words
		}
		rest = strings.TrimPrefix(rest, ")")
	default:
		clear(inner)
	}
	if twice && len(known) == 0 {
		clear(inner)
	}
	return rest, err
}

// checkFields returns the error of the first selector that selects nothing which the schema has.
// Lists are looked through; the entries of a map have to be selected by key or by *.
func (s schema) checkFields(f field, want selection) error {
	for f.Ref != "" || f.Items != nil {
		if f.Ref != "" {
			f = s.Schemas[f.Ref]
		} else {
			f = *f.Items
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		inner, known := f.Fields[name]
		switch {
		case f.Values != nil:
			inner, known = *f.Values, true
		case name == every:
			known = len(f.Fields) > 0 && len(want[name]) == 0
		}
		if !known {
			return fmt.Errorf("Invalid field selection %s", name) //nolint:staticcheck // the API's words
		}
		if err := s.checkFields(inner, want[name]); err != nil {
			return err
		}
	}
	return nil
}

// project returns what a selection wants of a value. Entries of lists are all treated alike.
func project(v any, s selection) any {
	if len(s) == 0 {
		return v
	}
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, project(item, s))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			inner, wanted := s[key]
			if !wanted {
				inner, wanted = s[every]
			}
			if wanted {
				out[key] = project(value, inner)
			}
		}
		return out
	}
	return v
}
