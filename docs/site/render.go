package main

import (
	"bytes"
	"html/template"
	"io/fs"
)

// A view is what the template of a page shows.
type view struct {
	Up       string // the way to the top of the site
	Title    string
	Summary  string
	Moved    string // what moved away from here, for moved.js; "" if nothing did
	Source   string // where the page can be changed; "" for one that is made here
	Groups   []viewGroup
	Contents []viewLink
	Body     template.HTML
	List     []viewEntry // a list of pages instead of a body
	Before   *viewLink
	After    *viewLink
}

// A viewGroup is a part of the navigation; the one of the page is open.
type viewGroup struct {
	Title string
	Open  bool
	Links []viewLink
}

// A viewLink is a link with its text.
type viewLink struct {
	Label string
	To    string
	Here  bool
	Level int
}

// A viewEntry is a page in a list of pages.
type viewEntry struct {
	viewLink
	Summary string
}

// render makes the pages.
func (s *site) render(fs.FS) error {
	layout, err := template.ParseFS(assets, "assets/page.html")
	if err != nil {
		return err
	}
	var all []page
	for _, g := range s.groups {
		all = append(all, g.pages...)
	}
	for i, p := range all {
		v := s.view(address(p.file), p.file)
		d := s.documents[p.file]
		v.Title, v.Summary, v.Body, v.Contents = d.title, d.summary, d.body, contents(d)
		if v.Moved, err = s.movedFrom(p.file); err != nil {
			return err
		}
		v.Source = repository + "/blob/main/" + p.file
		if i > 0 {
			v.Before = &viewLink{Label: s.label(all[i-1]), To: v.Up + address(all[i-1].file)}
		}
		if i+1 < len(all) {
			v.After = &viewLink{Label: s.label(all[i+1]), To: v.Up + address(all[i+1].file)}
		}
		if err := s.page(layout, address(p.file), v); err != nil {
			return err
		}
	}
	return s.lists(layout)
}

// lists makes the pages that links to folders lead to.
func (s *site) lists(layout *template.Template) error {
	for _, g := range s.groups {
		if g.folder == "" {
			continue
		}
		v := s.view(listAddress(g.folder), g.folder)
		v.Title = g.title
		for _, p := range g.pages {
			v.List = append(v.List, viewEntry{
				viewLink{Label: s.label(p), To: v.Up + address(p.file)}, s.documents[p.file].summary,
			})
		}
		if err := s.page(layout, listAddress(g.folder), v); err != nil {
			return err
		}
	}
	return nil
}

// view is a page at a place in the site, with the navigation as it looks from there.
func (s *site) view(at, file string) *view {
	v := &view{Up: up(at)}
	for _, g := range s.groups {
		part := viewGroup{Title: g.title, Open: g.folder == file}
		for _, p := range g.pages {
			here := p.file == file
			part.Open = part.Open || here
			part.Links = append(part.Links, viewLink{Label: s.label(p), To: v.Up + address(p.file), Here: here})
		}
		v.Groups = append(v.Groups, part)
	}
	return v
}

func (s *site) page(layout *template.Template, at string, v *view) error {
	var out bytes.Buffer
	if err := layout.Execute(&out, v); err != nil {
		return err
	}
	s.files[at] = out.Bytes()
	return nil
}

// contents are the headings below the title; those of short pages are seen without a list.
func contents(d *document) []viewLink {
	var found []viewLink
	for i := range d.sections {
		if h := &d.sections[i]; h.level == 2 || h.level == 3 {
			found = append(found, viewLink{Label: h.heading, To: "#" + h.id, Level: h.level})
		}
	}
	if len(found) < 3 {
		return nil
	}
	return found
}
