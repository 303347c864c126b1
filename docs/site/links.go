package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
)

// repository is where files are shown that the site does not have.
const repository = "https://github.com/capmcm/cluster-api-provider-mcm"

// A resolver knows where each file of the repository is in the site.
type resolver struct {
	source fs.FS
	places map[string]string // pages and lists of folders, by the path in the repository
	copies map[string]bool   // other files of docs that pages link to or show
}

func newResolver(source fs.FS, all []group) *resolver {
	r := &resolver{source: source, places: map[string]string{}, copies: map[string]bool{}}
	for _, g := range all {
		if g.folder != "" {
			r.places[g.folder] = listAddress(g.folder)
		}
		for _, p := range g.pages {
			r.places[p.file] = address(p.file)
		}
	}
	return r
}

// resolve maps the target of a link on a page.
func (r *resolver) resolve(from, target string) (string, error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", fmt.Errorf("read the link %q: %w", target, err)
	}
	if u.IsAbs() || u.Path == "" {
		return target, nil
	}
	file := path.Join(path.Dir(from), u.Path)
	place, here := r.places[file]
	if !here {
		place, err = r.other(file)
		if err != nil {
			return "", fmt.Errorf("follow the link %q: %w", target, err)
		}
	}
	if strings.HasPrefix(place, repository) {
		u.Path = place
	} else {
		u.Path = relative(address(from), place)
	}
	if u.Fragment != "" {
		return u.Path + "#" + u.EscapedFragment(), nil
	}
	return u.Path, nil
}

// other is the place of a file that is no page: pictures and data of docs are copied, code is in the repository.
func (r *resolver) other(file string) (string, error) {
	info, err := fs.Stat(r.source, file)
	switch {
	case err != nil:
		return "", err
	case info.IsDir():
		return repository + "/tree/main/" + file, nil
	case strings.HasSuffix(file, ".md"):
		return "", fmt.Errorf("%s is in no group of docs/site/pages.go; add it", file)
	case strings.HasPrefix(file, "docs/"):
		r.copies[file] = true
		return strings.TrimPrefix(file, "docs/"), nil
	}
	return repository + "/blob/main/" + file, nil
}

// relative is the path from one file of the site to another.
func relative(from, to string) string { return up(from) + to }

// up is the way from a file of the site to its top: "" or a number of "../".
func up(from string) string { return strings.Repeat("../", strings.Count(from, "/")) }
