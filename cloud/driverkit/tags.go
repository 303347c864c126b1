package driverkit

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TagCodec writes the tags of requests (CreateRequest.Tags) as a cloud takes them, and
// reads them again. Nothing is cut: what does not fit is a problem. Tags of classes are
// written as they are, so Decode leaves them alone.
type TagCodec struct {
	Limits cloud.TagLimits
	// Prefix stands for cloud.TagPrefix at the beginning of keys; empty is that prefix,
	// encoded like the rest. It has to be one that classes do not use.
	Prefix string
	// Escape begins a byte that the cloud does not take, followed by two hexadecimal
	// digits. It is itself written like that. The cloud has to take it, and the digits 0
	// to 9 and a to f. 0 is for clouds that take every character of the tags.
	Escape byte
}

// Encode returns tags with the keys and values that the cloud gets, never nil. Problems
// are of tags that are too long or have characters that cannot be written, in the order of
// their keys; each blocks the creation.
func (c TagCodec) Encode(tags map[string]string) (map[string]string, []cloud.Problem) {
	encoded := make(map[string]string, len(tags))
	var problems []cloud.Problem
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		k, v := c.Key(key), c.escape(tags[key], c.Limits.Values)
		for _, message := range wrongTag(c.Limits, k, v) {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksCreate, Field: "tags[" + key + "]", Message: message,
			})
		}
		encoded[k] = v
	}
	return encoded, problems
}

// Key returns the key that the cloud gets for a key of the manager.
func (c TagCodec) Key(key string) string {
	rest, ours := strings.CutPrefix(key, cloud.TagPrefix)
	if !ours || c.Prefix == "" {
		return c.escape(key, c.Limits.Keys)
	}
	return c.Prefix + c.escape(rest, c.Limits.Keys)
}

// Decode returns the tags of a resource: the manager's as they were before Encode, others
// as they are. The result is never nil and is the caller's.
func (c TagCodec) Decode(tags map[string]string) map[string]string {
	prefix := c.Key(cloud.TagPrefix)
	decoded := make(map[string]string, len(tags))
	for key, value := range tags {
		if rest, ours := strings.CutPrefix(key, prefix); ours {
			key, value = cloud.TagPrefix+c.unescape(rest), c.unescape(value)
		}
		decoded[key] = value
	}
	return decoded
}

// escape returns text without the bytes that are not in the alphabet.
func (c TagCodec) escape(text, alphabet string) string {
	if c.Escape == 0 || alphabet == "" {
		return text
	}
	var b strings.Builder
	for _, at := range []byte(text) {
		if at != c.Escape && at < utf8.RuneSelf && cloud.Outside(string(rune(at)), alphabet) == "" {
			b.WriteByte(at)
		} else {
			fmt.Fprintf(&b, "%c%02x", c.Escape, at)
		}
	}
	return b.String()
}

// unescape is the inverse of escape. What escape cannot have written stays.
func (c TagCodec) unescape(text string) string {
	const digits = 2
	if c.Escape == 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == c.Escape && i+digits < len(text) {
			if at, err := hex.DecodeString(text[i+1 : i+1+digits]); err == nil {
				b.Write(at)
				i += digits
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// UserTags returns the tags of a class that may change while its VMs exist: not those with
// the keys in fixed, and not the manager's. The result is never nil and is the caller's.
func (c TagCodec) UserTags(class map[string]string, fixed ...string) map[string]string {
	user := maps.Clone(class)
	maps.DeleteFunc(user, func(key, _ string) bool { return c.fixed(key, fixed) })
	if user == nil {
		user = map[string]string{}
	}
	return user
}

// Obsolete returns those of the keys that may be removed from the resources of a class:
// none of the class's own tags, of fixed, or the manager's. They are sorted, each once.
func (c TagCodec) Obsolete(keys []string, class map[string]string, fixed ...string) []string {
	all := slices.Compact(slices.Sorted(slices.Values(keys)))
	return slices.DeleteFunc(all, func(key string) bool {
		_, wanted := class[key]
		return wanted || c.fixed(key, fixed)
	})
}

// fixed reports whether a key is one of these, or the manager's.
func (c TagCodec) fixed(key string, keys []string) bool {
	return slices.Contains(keys, key) || strings.HasPrefix(key, cloud.TagPrefix) ||
		strings.HasPrefix(key, c.Key(cloud.TagPrefix))
}

// CheckTags adds a problem for each tag of a class, at path, that the cloud does not take.
func (c *Checks) CheckTags(severity cloud.Severity, path string, tags map[string]string, limits cloud.TagLimits) {
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		for _, message := range wrongTag(limits, key, tags[key]) {
			c.Problems.Add(severity, path+"["+key+"]", message)
		}
	}
}

// TooManyTags returns the problem of a resource with more tags than the cloud takes. They
// are those of the class at path, and of the manager.
func TooManyTags(path string, tags map[string]string, limits cloud.TagLimits) []cloud.Problem {
	n := len(tags)
	if limits.Max <= 0 || n <= limits.Max {
		return nil
	}
	return []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec." + path,
		Message: fmt.Sprintf("are %d together with those of the manager, and may be %d; remove %d", n, limits.Max,
			n-limits.Max),
	}}
}

// wrongTag returns what a cloud does not take about a tag.
func wrongTag(l cloud.TagLimits, key, value string) []string {
	var found []string
	n := utf8.RuneCountInString(key)
	switch {
	case l.KeyMax > 0 && (n == 0 || n > l.KeyMax):
		found = append(found, fmt.Sprintf("has a key of %d characters and has to have 1 to %d", n, l.KeyMax))
	case n == 0:
		found = append(found, "has an empty key; name it")
	}
	if at := cloud.Outside(key, l.Keys); at != "" {
		found = append(found, fmt.Sprintf("has %q in its key and may only have %s", at, l.Keys))
	}
	if n := utf8.RuneCountInString(value); l.ValueMax > 0 && n > l.ValueMax {
		found = append(found, fmt.Sprintf("has a value of %d characters and may have %d", n, l.ValueMax))
	}
	if at := cloud.Outside(value, l.Values); at != "" {
		found = append(found, fmt.Sprintf("has %q in its value and may only have %s", at, l.Values))
	}
	return found
}

// MergeTags returns the tags of a resource: those of the request, those of the class,
// which win, and the driver's own, which win over both. An own tag without a value is left
// out, whoever set it. The result is the caller's.
func MergeTags(request, class, own map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, request)
	maps.Copy(all, class)
	for key, value := range own {
		if all[key] = value; value == "" {
			delete(all, key)
		}
	}
	return all
}
