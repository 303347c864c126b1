package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// movedFile lists where pages and sections went: on each line the former place and the present one, separated by
// a tab. A place is a page with an anchor, or the page as a whole.
const movedFile = "docs/site/moved.tsv"

// readMoved reads the list: by file, where each anchor of it is now. The anchor "" is the page as a whole.
func (s *site) readMoved(source fs.FS) error {
	text, err := fs.ReadFile(source, movedFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		from, to, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !found {
			return fmt.Errorf("%s: %q is not two places with a tab between them", movedFile, line)
		}
		if err := s.checkMove(from, to); err != nil {
			return fmt.Errorf("%s: %s moved to %s: %w", movedFile, from, to, err)
		}
		file, anchor, _ := strings.Cut(from, "#")
		if s.moved[file] == nil {
			s.moved[file] = map[string]string{}
		}
		s.moved[file][anchor] = to
	}
	for file, anchors := range s.moved {
		if s.documents[file] == nil && anchors[""] == "" {
			return fmt.Errorf("%s: %s is gone; add where readers of the page as a whole go", movedFile, file)
		}
	}
	return nil
}

// checkMove reports a move from a place that is still there, or to one that is not.
func (s *site) checkMove(from, to string) error {
	file, anchor, _ := strings.Cut(from, "#")
	if d := s.documents[file]; d != nil && (anchor == "" || d.has(anchor)) {
		return errors.New("the former place is still there")
	}
	file, anchor, _ = strings.Cut(to, "#")
	switch d := s.documents[file]; {
	case d == nil:
		return errors.New("there is no such page")
	case anchor != "" && !d.has(anchor):
		return errors.New("the page has no such heading")
	}
	return nil
}

// has reports whether a heading of the document has the anchor.
func (d *document) has(anchor string) bool {
	return slices.ContainsFunc(d.sections, func(s section) bool { return s.id == anchor })
}

// movedFrom is what moved away from a page, as a page reads it: addresses by "#anchor", relative to the page. It is
// "" for a page that nothing moved from.
func (s *site) movedFrom(file string) (string, error) {
	if len(s.moved[file]) == 0 {
		return "", nil
	}
	found := map[string]string{}
	for anchor, to := range s.moved[file] {
		if anchor != "" {
			anchor = "#" + anchor
		}
		found[anchor] = up(address(file)) + addressOf(to)
	}
	text, err := json.Marshal(found)
	return string(text), err
}

// addressOf is where a page with an anchor is in the site.
func addressOf(place string) string {
	file, anchor, found := strings.Cut(place, "#")
	if !found {
		return address(file)
	}
	return address(file) + "#" + anchor
}

// redirect makes a page for each one that is gone, which leads to where its parts are.
func (s *site) redirect(fs.FS) error {
	layout, err := template.ParseFS(assets, "assets/moved.html")
	if err != nil {
		return err
	}
	for file, anchors := range s.moved {
		if s.documents[file] != nil {
			continue
		}
		moved, err := s.movedFrom(file)
		if err != nil {
			return err
		}
		now, _, _ := strings.Cut(anchors[""], "#")
		var out bytes.Buffer
		if err := layout.Execute(&out, struct{ Up, To, Title, Moved string }{
			up(address(file)), up(address(file)) + addressOf(anchors[""]), s.documents[now].title, moved,
		}); err != nil {
			return err
		}
		s.files[address(file)] = out.Bytes()
	}
	return nil
}
