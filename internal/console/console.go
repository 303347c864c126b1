package console

import (
	"strings"
	"unicode/utf8"
)

// Verdict is what a console says about a machine that did not join.
type Verdict struct {
	Cause   Cause  // Unknown if no line shows one
	Summary string // of the cause, in a few words
	Remedy  string // what a person can do
	Line    string // the last line that shows the cause, without spaces around it; empty if it is unknown
	Times   int    // how many lines show the cause
	Tail    []string
}

const (
	tailLines  = 10
	lineLength = 400 // bytes of a line that is shown
)

// Classify returns what a console says, whose lines end in \n. The further a boot has come, the less
// do earlier failures matter: of several causes it is the one of the latest step, and everything
// before the node has registered is over. What healthy boots write too counts only where nothing else
// is found. Tail are the last lines that are not empty, at most ten.
func Classify(text string) Verdict {
	found := make([]Verdict, len(rows))
	var tail []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		tail = append(tail, short(line))
		if joined.MatchString(line) {
			clear(found)
		}
		for i, r := range rows {
			if r.shows.MatchString(line) && (r.butNot == nil || !r.butNot.MatchString(line)) {
				found[i].Line, found[i].Times = short(line), found[i].Times+1
			}
		}
	}
	verdict := latest(found)
	verdict.Tail = tail[max(len(tail)-tailLines, 0):]
	return verdict
}

// latest returns what is found of the last row, those of healthy boots only without others.
func latest(found []Verdict) Verdict {
	best := -1
	for i := range found {
		if found[i].Times > 0 && (best < 0 || !rows[i].hint || rows[best].hint) {
			best = i
		}
	}
	if best < 0 {
		var v Verdict
		v.Summary, v.Remedy = Describe(Unknown)
		return v
	}
	v := found[best]
	v.Cause, v.Summary, v.Remedy = rows[best].cause, rows[best].summary, rows[best].remedy
	return v
}

// short returns a line of a length that can be shown.
func short(line string) string {
	if len(line) <= lineLength {
		return line
	}
	end := lineLength
	for end > 0 && !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}
