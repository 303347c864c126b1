package driverkit_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// labels are those of a cloud with a small alphabet.
var labels = driverkit.TagCodec{
	Limits: cloud.TagLimits{Keys: "a-z0-9_-", Values: "a-z0-9_-", KeyMax: 63, ValueMax: 63, Max: 64}, Escape: '_',
}

// noSlash is a codec for a cloud that takes no slash in a key, and all else.
var noSlash = driverkit.TagCodec{
	Limits: cloud.TagLimits{Keys: "a-zA-Z0-9_:. -", KeyMax: 255, ValueMax: 255}, Prefix: "mcm.cluster.x-k8s.io-",
}

// limited is a codec without an escape.
func limited(l cloud.TagLimits) driverkit.TagCodec { return driverkit.TagCodec{Limits: l} }

func TestTagsComeBack(t *testing.T) {
	t.Parallel()
	given := map[string]string{
		cloud.ClusterIDTag: "2f2c8a0e-UPPER", cloud.TagPrefix + "cluster-name": "prod.eu_1", cloud.TagPrefix + "x.y": "ä b",
		cloud.TagPrefix + "empty": "",
	}
	for name, c := range map[string]driverkit.TagCodec{"Labels": labels, "NoSlash": noSlash, "Any": {}} {
		encoded, problems := c.Encode(given)
		if len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		if diff := cmp.Diff(given, c.Decode(encoded)); diff != "" {
			t.Errorf("%s: what was encoded comes back (-want +got):\n%s", name, diff)
		}
	}
	if encoded, _ := labels.Encode(nil); encoded == nil {
		t.Error("callers add tags of their own, so the result is never nil")
	}
}

func TestTagsOnTheWire(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]driverkit.TagCodec{
		"mcm_2ecluster_2ex-k8s_2eio_2fcluster-id": labels,
		"mcm.cluster.x-k8s.io-cluster-id":         noSlash,
		"mcm.cluster.x-k8s.io/cluster-id":         {},
	} {
		if got := c.Key(cloud.ClusterIDTag); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	class := map[string]string{"kubernetes.io-cluster-x": "1_2e", "of/a-user": "_zz"}
	if diff := cmp.Diff(class, labels.Decode(class)); diff != "" {
		t.Errorf("tags of a class stay as they are (-want +got):\n%s", diff)
	}
}

// TestNothingIsCut: what does not fit is a problem of the tag as it was given.
func TestNothingIsCut(t *testing.T) {
	t.Parallel()
	long := cloud.TagPrefix + "cluster-name"
	for name, c := range map[string]struct {
		codec driverkit.TagCodec
		value string
		want  string
	}{
		"Value":     {labels, strings.Repeat("a", 64), "has a value of 64 characters and may have 63"},
		"Escaped":   {labels, strings.Repeat(".", 22), "has a value of 66 characters and may have 63"},
		"Key":       {limited(cloud.TagLimits{KeyMax: 10}), "x", "has a key of 33 characters and has to have 1 to 10"},
		"NoEscape":  {limited(cloud.TagLimits{Values: "a-z"}), "a.b", `has "." in its value and may only have a-z`},
		"ItFits":    {labels, strings.Repeat("a", 63), ""},
		"KeyLetter": {limited(cloud.TagLimits{Keys: "a-z./-"}), "x", `has "8" in its key and may only have a-z./-`},
	} {
		encoded, problems := c.codec.Encode(map[string]string{long: c.value})
		if c.want == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || problems[0].Message != c.want || problems[0].Field != "tags["+long+"]" ||
			problems[0].Severity != cloud.BlocksCreate || len(encoded) != 1 {
			t.Errorf("%s: got %v, want %q", name, problems, c.want)
		}
	}
}

func TestTagsOfAClass(t *testing.T) {
	t.Parallel()
	s := parse(`{}`)
	s.CheckTags(cloud.Warning, "tags", map[string]string{"Ab": "x", "": "x", "good": "y"}, labels.Limits)
	var got []string
	for _, p := range s.Found() {
		got = append(got, p.String())
	}
	want := []string{
		"providerSpec.tags[]: has a key of 0 characters and has to have 1 to 63",
		`providerSpec.tags[Ab]: has "A" in its key and may only have a-z0-9_-`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	few, many := map[string]string{"a": "", "b": ""}, map[string]string{"a": "", "b": "", "c": ""}
	limit := cloud.TagLimits{Max: 2}
	if got := driverkit.TooManyTags("tags", many, limit); len(got) != 1 || !strings.HasSuffix(got[0].Message, "remove 1") {
		t.Errorf("got %v", got)
	}
	if driverkit.TooManyTags("tags", few, limit) != nil || driverkit.TooManyTags("tags", many, cloud.TagLimits{}) != nil {
		t.Error("want no problem within the limit, or without one")
	}
}

func TestMergeTags(t *testing.T) {
	t.Parallel()
	request, class := map[string]string{"a": "r", "b": "r"}, map[string]string{"b": "c", "c": "c", "d": "c"}
	got := driverkit.MergeTags(request, class, map[string]string{"c": "own", "d": "", "e": ""})
	if diff := cmp.Diff(map[string]string{"a": "r", "b": "c", "c": "own"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(request) != 2 || len(class) != 3 {
		t.Error("an argument was changed")
	}
}

func TestUserTags(t *testing.T) {
	t.Parallel()
	class := map[string]string{
		"cluster": "c", "team": "a", cloud.TagPrefix + "cluster-id": "x", "ours-owner-id": "y", "stage": "test",
	}
	c := driverkit.TagCodec{Prefix: "ours-"}
	if diff := cmp.Diff(map[string]string{"team": "a", "stage": "test"}, c.UserTags(class, "cluster")); diff != "" {
		t.Error(diff)
	}
	if got := c.UserTags(nil); got == nil || len(got) > 0 {
		t.Errorf("got %v, want an empty map", got)
	}
	keys := []string{"team", "old", "cluster", "other", "old", "ours-owner-id", cloud.TagPrefix + "owner-id"}
	if diff := cmp.Diff([]string{"old"}, c.Obsolete(keys, class, "cluster", "other")); diff != "" {
		t.Error(diff)
	}
	if len(class) != 5 || keys[1] != "old" {
		t.Error("the arguments are changed")
	}
}
