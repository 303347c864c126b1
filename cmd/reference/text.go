package main

import (
	"regexp"
	"strings"
)

// code is text as code in the cell of a table.
func code(text string) string {
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fence + strings.ReplaceAll(text, "|", `\|`) + fence
}

func codes(texts []string) []string {
	var found []string
	for _, t := range texts {
		found = append(found, code(t))
	}
	return found
}

var (
	paragraphs = regexp.MustCompile(`\n\s*\n`)
	bullet     = regexp.MustCompile(`\n\s*[-*] `)
	special    = strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`, "\x00", "<br>", "\x01", "<br>• ")
)

// prose is a description as one line of Markdown.
func prose(text string) string {
	text = paragraphs.ReplaceAllString(strings.TrimSpace(text), " \x00 ")
	text = bullet.ReplaceAllString(text, " \x01")
	return special.Replace(strings.Join(strings.Fields(text), " "))
}

var notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor is that of a heading, as GitHub makes it.
func anchor(heading string) string {
	return strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
