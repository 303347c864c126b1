package ec2test

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// apiVersion is the version of EC2's API that is modeled.
const apiVersion = "2016-11-15"

// model is what Amazon publishes about the requests that a Cloud answers. model.json
// is an extract of it, which TestModelIsCurrent compares with its source.
type model struct {
	Source  string            `json:"source"`
	Actions map[string]string `json:"actions"` // shape of the request by action
	Shapes  map[string]shape  `json:"shapes"`
}

// shape is a type of the API. A name that is no shape is a plain type.
type shape struct {
	Type     string            `json:"type"`
	Members  map[string]string `json:"members,omitempty"`  // of a structure: shapes by name in a request
	Required []string          `json:"required,omitempty"` // of a structure
	Member   string            `json:"member,omitempty"`   // of a list: shape of the elements
	Enum     []string          `json:"enum,omitempty"`
	Pattern  string            `json:"pattern,omitempty"`
	Min      *float64          `json:"min,omitempty"` // value of a number, length of anything else
	Max      *float64          `json:"max,omitempty"`
}

//go:embed model.json
var modelText []byte

// published is the model. It is read once; what is in it is tested.
var published = sync.OnceValue(func() model {
	var m model
	if err := json.Unmarshal(modelText, &m); err != nil {
		panic(err)
	}
	return m
})

// node is a parameter with those below it: a request is flat, its names are paths.
type node struct {
	value string
	below map[string]*node // nil for a value
}

func (n *node) add(path []string, value string) {
	if len(path) == 0 {
		n.value = value
		return
	}
	if n.below == nil {
		n.below = map[string]*node{}
	}
	if n.below[path[0]] == nil {
		n.below[path[0]] = &node{}
	}
	n.below[path[0]].add(path[1:], value)
}

// check refuses a request of a known action that the model does not allow: parameters
// that are unknown or missing, and values of the wrong type, enumeration, pattern,
// range or length.
func (m model) check(form url.Values) error {
	root := &node{below: map[string]*node{}}
	for name, values := range form {
		if name == "Action" || name == "Version" {
			continue
		}
		if len(values) > 1 {
			return fail("MalformedQueryString", "The parameter %s is there %d times", name, len(values))
		}
		root.add(strings.Split(name, "."), values[0])
	}
	return m.visit("", root, m.Actions[form.Get("Action")])
}

func (m model) shape(name string) shape {
	if s, ok := m.Shapes[name]; ok {
		return s
	}
	return shape{Type: name}
}

func (m model) visit(at string, n *node, name string) error {
	s := m.shape(name)
	switch s.Type {
	case "structure":
		return m.visitStructure(at, n, s)
	case "list":
		return m.visitList(at, n, s)
	}
	if n.below != nil {
		return unknown(join(at, slices.Sorted(maps.Keys(n.below))[0]))
	}
	return s.checkValue(at, n.value)
}

func (m model) visitStructure(at string, n *node, s shape) error {
	if n.below == nil {
		return unknown(at)
	}
	for _, name := range slices.Sorted(maps.Keys(n.below)) {
		of, known := s.Members[name]
		if !known {
			return unknown(join(at, name))
		}
		if err := m.visit(join(at, name), n.below[name], of); err != nil {
			return err
		}
	}
	for _, name := range s.Required {
		if n.below[name] == nil {
			return fail("MissingParameter", "The request must contain the parameter %s", join(at, name))
		}
	}
	return nil
}

func (m model) visitList(at string, n *node, s shape) error {
	if n.below == nil {
		return unknown(at)
	}
	for _, index := range slices.Sorted(maps.Keys(n.below)) {
		if i, err := strconv.Atoi(index); err != nil || i < 1 || i > len(n.below) {
			return unknown(join(at, index))
		}
		if err := m.visit(join(at, index), n.below[index], s.Member); err != nil {
			return err
		}
	}
	return s.within(at, "number of elements", float64(len(n.below)))
}

// kinds are how the plain types are written.
var kinds = map[string]func(value string) error{
	"boolean":   func(v string) error { _, err := strconv.ParseBool(v); return err },
	"integer":   func(v string) error { _, err := strconv.ParseInt(v, 10, 32); return err },
	"long":      func(v string) error { _, err := strconv.ParseInt(v, 10, 64); return err },
	"float":     func(v string) error { _, err := strconv.ParseFloat(v, 32); return err },
	"double":    func(v string) error { _, err := strconv.ParseFloat(v, 64); return err },
	"timestamp": func(v string) error { _, err := time.Parse(time.RFC3339, v); return err },
	"blob":      func(v string) error { _, err := base64.StdEncoding.DecodeString(v); return err },
	"string":    func(string) error { return nil },
}

// checkValue refuses a value that the shape does not allow.
func (s shape) checkValue(at, value string) error {
	parse, known := kinds[s.Type]
	if !known {
		return fail("InternalError", "the model has a type %q for %s", s.Type, at)
	}
	if err := parse(value); err != nil {
		return fail(codeInvalidValue, "Invalid value '%s' for %s. It has to be a %s.", value, at, s.Type)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		return fail(codeInvalidValue, "Invalid value '%s' for %s.", value, at)
	}
	if s.Pattern != "" && !regexp.MustCompile(`^(?:`+s.Pattern+`)$`).MatchString(value) {
		return fail(codeInvalidValue, "Value (%s) for parameter %s is invalid. It has to match %s.", value, at, s.Pattern)
	}
	if s.Type == "string" {
		return s.within(at, "length", float64(len([]rune(value))))
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return nil //nolint:nilerr // no number has no range
	}
	return s.within(at, "value", n)
}

// within refuses what is too small or too large.
func (s shape) within(at, what string, n float64) error {
	if s.Min != nil && n < *s.Min || s.Max != nil && n > *s.Max {
		return fail(codeInvalidValue, "The %s of %s is %g, which is out of range.", what, at, n)
	}
	return nil
}

func unknown(at string) error {
	return fail("UnknownParameter", "The parameter %s is not recognized", at)
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return fmt.Sprintf("%s.%s", at, name)
}
