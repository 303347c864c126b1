// Package fields converts pools between the native API and Cluster API, and says what
// becomes of each field. A field is one [row] of a table; everything here is pure.
package fields

import "github.com/capmcm/cluster-api-provider-mcm/ops/migration"

// A row is one field of a pool: where each API has it, how it is converted in both
// directions, and what becomes of its value. N is what has the field on the native API, C
// on Cluster API. Any part may be missing: a field without a conversion is not copied, or
// is copied with another one.
type row[N, C any] struct {
	native     string // path of the field; empty: the native API does not have it
	clusterAPI string // path of the field; empty: Cluster API does not have it

	toClusterAPI func(N, C)
	toNative     func(C, N)

	leavesNative     func(N) outcome // what becomes of a native value on Cluster API
	leavesClusterAPI func(C) outcome // and of one of Cluster API on the native API
}

// outcome is what becomes of one value. Without a level there is nothing to say: the field
// is not set.
type outcome struct {
	level  migration.Level
	text   string
	remedy string // what to do first if it is blocked
}

func kept(text string) outcome     { return outcome{level: migration.Kept, text: text} }
func replaced(text string) outcome { return outcome{level: migration.Replaced, text: text} }
func lost(text string) outcome     { return outcome{level: migration.Lost, text: text} }

func blocked(text, remedy string) outcome {
	return outcome{level: migration.Blocked, text: text, remedy: remedy}
}

// when is o if the field is set.
func when(set bool, o outcome) outcome {
	if !set {
		return outcome{}
	}
	return o
}

// finding is what o says of a field of an object.
func (o outcome) finding(object, field string) migration.Finding {
	return migration.Finding{Level: o.level, Object: object, Field: field, Text: o.text, Remedy: o.remedy}
}

// convert copies the fields of n to c.
func convert[N, C any](table []row[N, C], n N, c C) {
	for _, r := range table {
		if r.toClusterAPI != nil {
			r.toClusterAPI(n, c)
		}
	}
}

// convertBack copies the fields of c to n.
func convertBack[N, C any](table []row[N, C], c C, n N) {
	for _, r := range table {
		if r.toNative != nil {
			r.toNative(c, n)
		}
	}
}

// judgeNative returns what becomes of the native fields of an object. Paths begin with prefix.
func judgeNative[N, C any](table []row[N, C], object, prefix string, n N) (found []migration.Finding) {
	for _, r := range table {
		found = append(found, judge(r.leavesNative, n, object, prefix+r.native)...)
	}
	return found
}

// judgeClusterAPI returns what becomes of the fields of an object of Cluster API.
func judgeClusterAPI[N, C any](table []row[N, C], object, prefix string, c C) (found []migration.Finding) {
	for _, r := range table {
		found = append(found, judge(r.leavesClusterAPI, c, object, prefix+r.clusterAPI)...)
	}
	return found
}

// judge returns what becomes of one field of o; nothing if there is nothing to say.
func judge[O any](leaves func(O) outcome, o O, object, field string) []migration.Finding {
	if leaves == nil {
		return nil
	}
	if out := leaves(o); out.level != "" {
		return []migration.Finding{out.finding(object, field)}
	}
	return nil
}
