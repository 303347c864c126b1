package cloudtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// sparse is C48: what a class leaves out is not sent. The smallest class is that of the fixture without what it need
// not have. The optional fields are those of the golden class; each is given alone, and with its zero value. The file
// shows the requests for the smallest class whole, and how each other differs from them.
func sparse(k *kit) {
	g := k.h.Golden
	k.needs(g != nil && k.h.SparseFile != "", "Harness.Golden or Harness.SparseFile")
	smallest := k.smallest(g.Smallest)
	full := k.tree(g.Class(k.f).Spec)
	whole, _ := k.requestsFor(smallest)
	var b strings.Builder
	fmt.Fprintf(&b, "smallest %s\n%s\n", k.specOf(smallest), strings.Join(whole, "\n"))
	for _, path := range optional(smallest, full) {
		value := at(full, path)
		tried := ""
		for _, given := range []any{value, zeroOf(value)} {
			text, _ := json.Marshal(given)
			if tried == string(text) {
				continue
			}
			tried = string(text)
			got, refused := k.requestsFor(k.given(smallest, path, given))
			says := difference(whole, got)
			if refused != "" {
				says = refused + "\n"
			}
			fmt.Fprintf(&b, "\n%s = %s\n%s", strings.Join(path, "."), text, says)
		}
	}
	k.compare(k.h.SparseFile, b.String())
}

// tree is a provider spec as encoding/json decodes it.
func (k *kit) tree(spec []byte) map[string]any {
	k.Helper()
	var t map[string]any
	if err := json.Unmarshal(spec, &t); err != nil {
		k.Fatalf("a spec of the fixture is no object: %v", err)
	}
	return t
}

func (k *kit) specOf(t map[string]any) []byte {
	k.Helper()
	text, err := json.Marshal(t)
	if err != nil {
		k.Fatalf("encode spec: %v", err)
	}
	return text
}

// accepts reports whether a class with that spec makes VMs.
func (k *kit) accepts(t map[string]any) (cloud.Class, []cloud.Problem) {
	k.Helper()
	in := copyInput(k.f.Class)
	in.Spec = k.specOf(t)
	c, problems := k.f.Driver().Parse(in)
	return c, worst(problems, cloud.BlocksCreate)
}

// smallest is the spec of a class without each field that there is a VM without.
func (k *kit) smallest(in cloud.ClassInput) map[string]any {
	k.Helper()
	if in.Spec == nil {
		in = k.f.Class
	}
	spec := k.tree(in.Spec)
	for _, path := range paths(spec, nil) {
		if at(spec, path) == nil {
			continue
		}
		without := k.tree(k.specOf(spec))
		remove(without, path)
		if _, refused := k.requestsFor(without); refused == "" {
			spec = without
		}
	}
	return spec
}

// given is a spec with one more field.
func (k *kit) given(spec map[string]any, path []string, value any) map[string]any {
	k.Helper()
	spec = k.tree(k.specOf(spec))
	put(spec, path, value)
	return spec
}

// requestsFor returns what a fresh cloud is asked for, as lines, or by whom the class is refused.
func (k *kit) requestsFor(spec map[string]any) (lines []string, refused string) {
	k.Helper()
	k.renew()
	c, wrong := k.accepts(spec)
	if len(wrong) > 0 {
		var fields []string
		for _, p := range wrong {
			fields = append(fields, p.Field)
		}
		return nil, "refused for " + strings.Join(fields, ", ")
	}
	k.h.Golden.Class(k.f) // which lets Normalize begin anew
	m, a := k.named("golden"), k.account()
	m.token = "11111111-1111-4111-8111-111111111111"
	m.ref.OwnerID = "22222222-2222-4222-8222-222222222222"
	m.tags[cloud.ClusterIDTag] = "33333333-3333-4333-8333-333333333333"
	m.ref.Class, m.userData = c, []byte("#cloud-config\n{}\n")
	k.proxy.Forget()
	_, err := m.patiently(a)
	for _, call := range k.proxy.Calls() {
		if text := strings.TrimSpace(k.h.Golden.Normalize(call)); call.Mutates && text != "" {
			lines = append(lines, linesOf(text)...)
		}
	}
	if err != nil {
		return nil, "refused by the cloud: " + cloud.CodeOf(err).String()
	}
	return lines, ""
}

// linesOf are a request as lines, one for each value of a body in JSON.
func linesOf(text string) []string {
	begin := strings.IndexByte(text, '{')
	var body any
	decoder := json.NewDecoder(bytes.NewReader([]byte(text[max(begin, 0):])))
	decoder.UseNumber()
	if begin < 0 || decoder.Decode(&body) != nil {
		return strings.Split(text, "\n")
	}
	head := strings.TrimSpace(text[:begin])
	lines := []string{head}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(at+"."+key, v[key])
			}
			if len(v) > 0 {
				return
			}
		case []any:
			for i, each := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), each)
			}
			if len(v) > 0 {
				return
			}
		}
		value, _ := json.Marshal(v)
		lines = append(lines, "  "+strings.TrimPrefix(at, ".")+" = "+string(value))
	}
	walk("", body)
	return lines
}

// difference is how lines differ from others.
func difference(was, is []string) string {
	var b strings.Builder
	for _, line := range was {
		if !slices.Contains(is, line) {
			b.WriteString("- " + line + "\n")
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			b.WriteString("+ " + line + "\n")
		}
	}
	if b.Len() == 0 {
		return "the same\n"
	}
	return b.String()
}

// zeroOf is the zero value of the same JSON type.
func zeroOf(v any) any {
	switch v.(type) {
	case string:
		return ""
	case float64:
		return 0
	case bool:
		return false
	case []any:
		return []any{}
	case map[string]any:
		return map[string]any{}
	}
	return nil
}

// paths are those of all values in a tree, inner ones after what they are in. An element of a list has its number as
// its name; only the first is looked at.
func paths(v any, prefix []string) (all [][]string) {
	children := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		children = v
	case []any:
		if len(v) > 0 {
			all = paths(v[0], append(slices.Clone(prefix), "0"))
		}
		return all
	}
	for _, key := range slices.Sorted(maps.Keys(children)) {
		path := append(slices.Clone(prefix), key)
		all = append(append(all, path), paths(children[key], path)...)
	}
	return all
}

// optional are the paths of what full has and smallest lacks: of an object or a list that it lacks, the whole, and each
// field of it alone.
func optional(smallest, full map[string]any) (all [][]string) {
	for _, path := range paths(full, nil) {
		if at(smallest, path) == nil {
			all = append(all, path)
		}
	}
	return all
}

// at is the value at a path; nil if there is none.
func at(v any, path []string) any {
	for _, key := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			if len(in) == 0 {
				return nil
			}
			v = in[0]
		default:
			return nil
		}
	}
	return v
}

// put sets a value at a path, and makes what it is in.
func put(in map[string]any, path []string, value any) {
	key := path[0]
	switch {
	case len(path) == 1:
		in[key] = value
		return
	case path[1] == "0":
		list, _ := in[key].([]any)
		if len(list) == 0 {
			list = []any{map[string]any{}}
			in[key] = list
		}
		if first, is := list[0].(map[string]any); is && len(path) > 2 {
			put(first, path[2:], value)
		}
		return
	}
	next, is := in[key].(map[string]any)
	if !is {
		next = map[string]any{}
		in[key] = next
	}
	put(next, path[1:], value)
}

// remove takes the value at a path away.
func remove(in map[string]any, path []string) {
	holder, _ := at(in, path[:len(path)-1]).(map[string]any)
	delete(holder, path[len(path)-1])
}
