package azuretest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// model is what Microsoft publishes about the types that a Cloud gets and gives.
type model struct {
	Source string                       `json:"source"`
	Shapes map[string]map[string]member `json:"shapes"`
}

// member is a field of a type.
type member struct {
	Type     string   `json:"type"`
	Enum     []string `json:"enum"`
	Required bool     `json:"required"`
	ReadOnly bool     `json:"readOnly"`
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

// check is a check of a request, or else of an answer.
type check struct {
	model

	request bool
	wrong   []string
}

// checkValue returns what of a value is not as the model has that type.
func checkValue(kind string, v any, request bool) []string {
	c := &check{model: published(), request: request}
	c.visit(kind, member{Type: kind}, v)
	return c.wrong
}

func (c *check) addf(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// visit checks a value of the type of m at a path.
func (c *check) visit(at string, m member, v any) {
	if of, is := strings.CutPrefix(m.Type, "list:"); is {
		c.visitList(at, member{Type: of, Enum: m.Enum}, v)
		return
	}
	if of, is := strings.CutPrefix(m.Type, "map:"); is {
		c.visitMap(at, member{Type: of, Enum: m.Enum}, v)
		return
	}
	if shape, is := c.Shapes[m.Type]; is {
		c.visitShape(at, shape, v)
		return
	}
	if !m.fits(v) {
		c.addf("%s is %v and has to be a %s", at, v, m.Type)
	}
	text, _ := v.(string)
	if m.Enum != nil && !slices.Contains(m.Enum, text) {
		c.addf("%s is %v and has to be one of %s", at, v, strings.Join(m.Enum, ", "))
	}
	if m.Type == "any" && c.request {
		c.addf("%s is not known here", at)
	}
}

func (m member) fits(v any) bool {
	number, numeric := v.(float64)
	text, textual := v.(string)
	_, boolean := v.(bool)
	switch m.Type {
	case "string":
		return textual
	case "boolean":
		return boolean
	case "number":
		return numeric
	case "integer":
		return numeric && number == math.Trunc(number)
	case "time":
		_, err := time.Parse(time.RFC3339, text)
		return err == nil
	}
	return true
}

func (c *check) visitList(at string, of member, v any) {
	all, ok := v.([]any)
	if !ok {
		c.addf("%s is no list", at)
	}
	for i, each := range all {
		c.visit(fmt.Sprintf("%s[%d]", at, i), of, each)
	}
}

func (c *check) visitMap(at string, of member, v any) {
	all, ok := v.(map[string]any)
	if !ok {
		c.addf("%s is no object", at)
	}
	for key, each := range all {
		c.visit(at+"["+key+"]", of, each)
	}
}

func (c *check) visitShape(at string, shape map[string]member, v any) {
	all, ok := v.(map[string]any)
	if !ok {
		c.addf("%s is no object", at)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		m, known := shape[key]
		switch {
		case !known:
			c.addf("%s.%s is an unknown field", at, key)
		case m.ReadOnly && c.request:
			c.addf("%s.%s is read-only", at, key)
		default:
			c.visit(at+"."+key, m, all[key])
		}
	}
	if c.request {
		c.complete(at, shape, all)
	}
}

// complete checks that what a request needs is there.
func (c *check) complete(at string, shape map[string]member, all map[string]any) {
	for key, m := range shape {
		if _, has := all[key]; m.Required && !has {
			c.addf("%s.%s is missing", at, key)
		}
	}
}
