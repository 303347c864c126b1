// Package manifest reads the objects of files, folders and pipes.
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// stdin is the name of what comes from a pipe.
const stdin = "-"

// Document is an object of a file; without one, Wrong is why.
type Document struct {
	File   string
	Object *unstructured.Unstructured
	Wrong  string
}

// Read returns the documents of files, of folders, and of in for "-", and how many files they are of.
func Read(names []string, recursive bool, in io.Reader) (documents []Document, files int, err error) {
	all, err := expand(names, recursive)
	if err != nil {
		return nil, 0, err
	}
	for _, file := range all {
		found, err := read(file, in)
		if err != nil {
			return nil, 0, err
		}
		documents = append(documents, found...)
	}
	return documents, len(all), nil
}

// expand returns the files that names stand for: a folder stands for the manifests in it.
func expand(names []string, recursive bool) ([]string, error) {
	var files []string
	for _, name := range names {
		if name == stdin {
			files = append(files, name)
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		found := []string{name}
		if info.IsDir() {
			if found, err = folder(name, recursive); err != nil {
				return nil, err
			}
		}
		files = append(files, found...)
	}
	return files, nil
}

// folder returns the manifests in a folder.
func folder(name string, recursive bool) ([]string, error) {
	var files []string
	err := filepath.WalkDir(name, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no .yaml, .yml or .json file; --recursive looks into its folders too", name)
	}
	return files, err
}

// read returns the documents of a file.
func read(file string, in io.Reader) ([]Document, error) {
	if file != stdin {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer opened.Close()
		in = opened
	}
	var found []Document
	for parts := utilyaml.NewYAMLReader(bufio.NewReader(in)); ; {
		text, err := parts.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		found = append(found, decode(file, text)...)
	}
}

// decode returns the object of a part of a file, those of a list, or none of a comment.
func decode(file string, text []byte) []Document {
	broken := func(format string, args ...any) []Document {
		return []Document{{File: file, Wrong: fmt.Sprintf(format, args...)}}
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return broken("is no YAML%s; correct it", lineOf(err))
	}
	if asJSON = bytes.TrimSpace(asJSON); bytes.Equal(asJSON, []byte("null")) {
		return nil
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(asJSON, &content); err != nil {
		return broken("is no object of Kubernetes; write apiVersion, kind and metadata")
	}
	object := &unstructured.Unstructured{Object: content}
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return broken("has no apiVersion or no kind; add them")
	}
	if !object.IsList() {
		return []Document{{File: file, Object: object}}
	}
	var found []Document
	err = object.EachListItem(func(item runtime.Object) error {
		found = append(found, Document{File: file, Object: item.(*unstructured.Unstructured)})
		return nil
	})
	if err != nil {
		return broken("is a list with an item that is no object: %v; correct it", err)
	}
	return found
}

var line = regexp.MustCompile(`\bline (\d+)`)

// lineOf returns where an error of the YAML parser is. The rest of its text may have a part of a Secret.
func lineOf(err error) string {
	if found := line.FindStringSubmatch(err.Error()); found != nil {
		return " in its line " + found[1]
	}
	return ""
}
