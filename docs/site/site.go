package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// assets are what all pages use.
//
//go:embed assets/site.css assets/site.js assets/page.html assets/moved.js assets/moved.html
var assets embed.FS

// A site is what the pages become, while they do.
type site struct {
	groups    []group
	documents map[string]*document // by file
	resolver  *resolver
	moved     map[string]map[string]string // by file and anchor: the page and anchor that have it now
	files     map[string][]byte            // what the site has, by path
}

// build makes all files of the site, by their paths, of the pages in a copy of the repository.
func build(source fs.FS, all []group) (map[string][]byte, error) {
	s := &site{
		groups: all, documents: map[string]*document{}, resolver: newResolver(source, all),
		moved: map[string]map[string]string{}, files: map[string][]byte{},
	}
	for _, step := range []func(fs.FS) error{s.read, s.readMoved, s.render, s.redirect, s.copy, s.index} {
		if err := step(source); err != nil {
			return nil, err
		}
	}
	return s.files, nil
}

// read reads all pages.
func (s *site) read(source fs.FS) error {
	m := newMarkdown()
	for _, g := range s.groups {
		for _, p := range g.pages {
			text, err := fs.ReadFile(source, p.file)
			if err != nil {
				return err
			}
			d, err := m.read(text, func(target string) (string, error) { return s.resolver.resolve(p.file, target) })
			if err != nil {
				return fmt.Errorf("read %s: %w", p.file, err)
			}
			s.documents[p.file] = d
		}
	}
	return nil
}

// copy adds what pages show or link to, and what all pages use.
func (s *site) copy(source fs.FS) error {
	for file := range s.resolver.copies {
		text, err := fs.ReadFile(source, file)
		if err != nil {
			return err
		}
		s.files[strings.TrimPrefix(file, "docs/")] = text
	}
	for _, name := range []string{"site.css", "site.js", "moved.js"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		s.files["assets/"+name] = text
	}
	return nil
}

// label is the name of a page in the navigation.
func (s *site) label(p page) string {
	if p.label != "" {
		return p.label
	}
	return strings.TrimSuffix(s.documents[p.file].title, ": reference") // the group says that
}

// removeSite removes a site that was built before. A folder with anything else is not touched.
func removeSite(out string) error {
	entries, err := os.ReadDir(out)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, filepath.FromSlash(indexFile))); err != nil {
		return fmt.Errorf("replace %s: it is not empty, and has no site: name another folder", out)
	}
	return os.RemoveAll(out)
}

// write writes the files of a site.
func write(files map[string][]byte, out string) error {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		//nolint:gosec // documents are for everybody to read
		if err := os.MkdirAll(filepath.Join(out, filepath.FromSlash(path.Dir(name))), 0o755); err != nil {
			return err
		}
		//nolint:gosec // as above
		if err := os.WriteFile(filepath.Join(out, filepath.FromSlash(name)), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
