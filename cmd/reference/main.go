// Command reference writes the API reference, one page for each group, from the CRDs of config/crd and
// the Go types of api. make generate has it write that of docs/api/reference.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func main() {
	out := flag.String("out", "docs/api/reference", "folder to write to; pages of groups that are gone are removed")
	api := flag.String("api", "api", "folder with the Go types")
	flag.Parse()
	if err := run(*api, *out); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// run writes all pages, and nothing else stays in the folder.
func run(api, out string) error {
	files, err := pages(api)
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(out, "*.md"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, stays := files[filepath.Base(name)]; !stays {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	for name, text := range files {
		//nolint:gosec // a document is for everybody to read
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages returns the text of each page by the name of its file.
func pages(api string) (map[string]string, error) {
	crds, err := definitions()
	if err != nil {
		return nil, err
	}
	types, err := readTypes(api)
	if err != nil {
		return nil, err
	}
	groups := map[string][]*apiextensionsv1.CustomResourceDefinition{}
	for i := range crds {
		groups[crds[i].Spec.Group] = append(groups[crds[i].Spec.Group], &crds[i])
	}
	files := map[string]string{}
	for group, kinds := range groups {
		text, err := page(group, kinds, types)
		if err != nil {
			return nil, err
		}
		files[folderOf(group)+".md"] = text
	}
	return files, nil
}

// folderOf is the folder of a group below api, which also names its page.
func folderOf(group string) string {
	folder, _, _ := strings.Cut(group, ".")
	return folder
}

// explanation is the page of a kind that is written by hand, in the folder above; a template shares that of its kind.
func explanation(kind string) string {
	return strings.ToLower(strings.TrimSuffix(kind, "Template")) + ".md"
}
