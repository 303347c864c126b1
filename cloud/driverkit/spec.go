package driverkit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/lenient"
)

// Checks collect what is wrong with a provider spec. A driver embeds them in its
// own form of the spec. Paths are relative to the provider spec, such as
// "disks[0].size".
type Checks struct {
	Problems lenient.Problems `json:"-"`
	// Unread are the paths of the values of a wrong type, in the author's spelling.
	// A field below one of them is empty for that reason, and gets no second problem.
	Unread []string `json:"-"`
}

// Decode decodes a provider spec into a pointer to a struct, and returns the
// problems with the types of its values.
func Decode(raw json.RawMessage, into any, o lenient.Options) Checks {
	found := lenient.Decode(raw, into, o)
	return Checks{Problems: found.Problems, Unread: found.Unread}
}

// Wrong reports whether a value at that path or below it has a wrong type.
func (c *Checks) Wrong(path string) bool {
	return slices.ContainsFunc(c.Unread, func(unread string) bool {
		if len(unread) < len(path) || !strings.EqualFold(unread[:len(path)], path) {
			return false
		}
		return len(unread) == len(path) || unread[len(path)] == '.' || unread[len(path)] == '['
	})
}

// Require adds a problem if a field is empty, unless its value has a wrong type.
func (c *Checks) Require(severity cloud.Severity, path, value, remedy string) {
	if strings.TrimSpace(value) == "" && !c.Wrong(path) {
		c.Problems.Add(severity, path, "is missing; "+remedy)
	}
}

// OneOf adds a problem that blocks Create if a field has another value than
// those; empty is allowed.
func (c *Checks) OneOf(path, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		c.Problems.Add(cloud.BlocksCreate, path,
			fmt.Sprintf("is %q and has to be one of %s", value, strings.Join(allowed, ", ")))
	}
}

// AtLeast adds a problem that blocks Create if a number is too small; nil is
// allowed.
func (c *Checks) AtLeast(path string, value *int32, least int32) {
	if value != nil && *value < least {
		c.Problems.Add(cloud.BlocksCreate, path, fmt.Sprintf("is %d and has to be at least %d", *value, least))
	}
}

// Between adds a problem that blocks Create if a number is too small or too large; nil is
// allowed.
func (c *Checks) Between(path string, value *int32, least, most int32) {
	if value != nil && (*value < least || *value > most) {
		c.Block(path, "is %d and has to be from %d to %d", *value, least, most)
	}
}

// Matches adds a problem if a value is not wholly of a form, which form describes, e.g.
// "a price in US dollars, e.g. 0.05". Empty is allowed.
func (c *Checks) Matches(severity cloud.Severity, path, value string, pattern *regexp.Regexp, form string) {
	if value != "" && pattern.FindString(value) != value {
		c.Problems.Add(severity, path, fmt.Sprintf("is %q and has to be %s", value, form))
	}
}

// Distinct adds a problem that blocks Create for each entry of a list whose field has the
// value of an earlier one; empty is allowed.
func (c *Checks) Distinct(list, field string, values []string, remedy string) {
	for i, value := range values {
		if value != "" && slices.Contains(values[:i], value) {
			c.Block(fmt.Sprintf("%s[%d].%s", list, i, field), "is %q, as that of another entry; %s", value, remedy)
		}
	}
}

// Block adds a problem that blocks Create. The message says what is wrong and what to do.
func (c *Checks) Block(path, message string, args ...any) {
	c.Problems.Add(cloud.BlocksCreate, path, fmt.Sprintf(message, args...))
}

// Warn adds a problem that blocks nothing.
func (c *Checks) Warn(path, message string, args ...any) {
	c.Problems.Add(cloud.Warning, path, fmt.Sprintf(message, args...))
}

// BlockIf is Block for a spec in which bad is true.
func (c *Checks) BlockIf(bad bool, path, message string, args ...any) { //nolint:revive // a condition, and no mode
	if bad {
		c.Block(path, message, args...)
	}
}

// WarnIf is Warn for a spec in which odd is true.
func (c *Checks) WarnIf(odd bool, path, message string, args ...any) { //nolint:revive // a condition, and no mode
	if odd {
		c.Warn(path, message, args...)
	}
}

// Default gives a field that the spec leaves out its value.
func Default[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// Ownership returns the keys of the tags that name the cluster and the role of a
// class, sorted. It is nil unless there is one of either kind: a class that does
// not name both owns no resources.
func Ownership(tags map[string]string, cluster, role func(key string) bool) []string {
	var keys []string
	hasCluster, hasRole := false, false
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		isCluster, isRole := cluster(key), role(key)
		if isCluster || isRole {
			keys = append(keys, key)
		}
		hasCluster, hasRole = hasCluster || isCluster, hasRole || isRole
	}
	if !hasCluster || !hasRole {
		return nil
	}
	return keys
}

// Contains returns a function that reports whether a key contains the mark, as
// MCM's drivers for AWS and OpenStack find their tags.
func Contains(mark string) func(key string) bool {
	return func(key string) bool { return strings.Contains(key, mark) }
}

// Begins returns a function that reports whether a key is the prefix and more.
func Begins(prefix string) func(key string) bool {
	return func(key string) bool { return len(key) > len(prefix) && strings.HasPrefix(key, prefix) }
}

// Checked is a driver's own form of a provider spec.
type Checked interface{ Found() []cloud.Problem }

// Found returns all problems, in the order in which they were found.
func (c *Checks) Found() []cloud.Problem { return c.Problems }

// SpecOf returns the driver's own form of a class, as its Parse made it. The
// error, of code Invalid, says that another driver parsed the class, or that a
// problem rules out every call.
func SpecOf[T Checked](op string, c cloud.Class) (T, error) {
	s, ok := c.Spec.(T)
	if !ok {
		return s, cloud.Errorf(cloud.Invalid, op, "InvalidClass", "the class was not parsed by this driver")
	}
	return s, cloud.Worst(op, s.Found(), cloud.BlocksAll)
}
