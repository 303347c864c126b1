package main

import (
	"encoding/json"
	"io/fs"
	"strings"
)

// indexFile has what is searched. It is a script, since pages without a server may not read other files.
const indexFile = "assets/index.js"

// An entry is a section that a search can find.
type entry struct {
	To      string `json:"to"`
	Title   string `json:"title"`
	Heading string `json:"heading,omitempty"` // none: the beginning of the page
	Group   string `json:"group"`
	Text    string `json:"text"`
	Aside   bool   `json:"aside,omitempty"`
}

// index makes the index of the search.
func (s *site) index(fs.FS) error {
	var entries []entry
	for _, g := range s.groups {
		for _, p := range g.pages {
			entries = append(entries, s.entries(g, p)...)
		}
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	s.files[indexFile] = []byte("window.searchIndex = " + string(text) + ";\n")
	return nil
}

// entries are the sections of a page.
func (s *site) entries(g group, p page) []entry {
	d := s.documents[p.file]
	found := make([]entry, len(d.sections))
	for i := range d.sections {
		of := &d.sections[i]
		found[i] = entry{
			To: address(p.file) + "#" + of.id, Title: s.label(p), Heading: of.heading, Group: g.title,
			Text: strings.TrimSpace(of.text.String()), Aside: g.aside,
		}
		if i == 0 {
			found[i].To, found[i].Heading = address(p.file), ""
			found[i].Text = strings.TrimSpace(strings.TrimPrefix(of.heading, s.label(p)) + " " + found[i].Text)
		}
	}
	return found
}
