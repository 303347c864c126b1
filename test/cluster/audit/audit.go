// Package audit reads the audit log of an API server and counts requests in it:
// who asked for what, how often.
package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// An Entry is one completed request. A watch is completed when it ends.
type Entry struct {
	User        string
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	Group       string // "" is the core group
	Resource    string // "" where the request was not for a resource
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int
	Received    time.Time
	Completed   time.Time
}

// Target returns what was asked for, as "<resource>.<group>/<subresource>"
// without the parts that are empty; the path where it was no resource.
func (e Entry) Target() string {
	if e.Resource == "" {
		path, _, _ := strings.Cut(e.URI, "?")
		return path
	}
	text := e.Resource
	if e.Group != "" {
		text += "." + e.Group
	}
	if e.Subresource != "" {
		text += "/" + e.Subresource
	}
	return text
}

// A Log is the file that an API server appends its entries to.
type Log struct{ Path string }

// A Mark is a place in a log; the zero Mark is its beginning.
type Mark int64

// End returns the place behind the last finished line. A log that does not
// exist yet is empty.
func (l Log) End() (Mark, error) {
	file, err := os.Open(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	block := make([]byte, 1<<16)
	for end > 0 {
		start := max(0, end-int64(len(block)))
		n, err := file.ReadAt(block[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			return Mark(start + int64(i) + 1), nil
		}
		end = start
	}
	return 0, nil
}

// Since returns the entries from a mark on that all filters keep, in the order
// in which the requests were completed. A last line that is not finished is
// left for the next time.
func (l Log) Since(from Mark, keep ...Filter) ([]Entry, error) {
	var entries []Entry
	err := l.scan(from, func(e Entry, _ Mark) bool {
		if keepAll(e, keep) {
			entries = append(entries, e)
		}
		return true
	})
	return entries, err
}

// Between is Since up to another mark.
func (l Log) Between(from, to Mark, keep ...Filter) ([]Entry, error) {
	var entries []Entry
	err := l.scan(from, func(e Entry, next Mark) bool {
		if next <= to && keepAll(e, keep) {
			entries = append(entries, e)
		}
		return next < to
	})
	return entries, err
}

// Each calls visit with the entries between two marks, one by one, so that a log
// of any length is read without being held in memory.
func (l Log) Each(from, to Mark, visit func(Entry)) error {
	return l.scan(from, func(e Entry, next Mark) bool {
		if next <= to {
			visit(e)
		}
		return next < to
	})
}

// scan calls visit with every entry from a mark on and the mark behind it, until
// visit returns false.
func (l Log) scan(from Mark, visit func(Entry, Mark) bool) error {
	file, err := os.Open(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(int64(from), io.SeekStart); err != nil {
		return err
	}
	reader, at := bufio.NewReaderSize(file, 1<<16), from
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at += Mark(len(line))
		entry, err := parse(line)
		if err != nil {
			return fmt.Errorf("%s before byte %d: %w", l.Path, at, err)
		}
		if !visit(entry, at) {
			return nil
		}
	}
}

// Find returns the mark behind the first entry from a mark on that all filters
// keep, and whether there is one.
func (l Log) Find(from Mark, keep ...Filter) (Mark, bool, error) {
	var at Mark
	found := false
	err := l.scan(from, func(e Entry, next Mark) bool {
		at, found = next, keepAll(e, keep)
		return !found
	})
	return at, found, err
}

// event is what is read of an entry, in the form of audit.k8s.io/v1.
type event struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received  time.Time `json:"requestReceivedTimestamp"`
	Completed time.Time `json:"stageTimestamp"`
}

func parse(line []byte) (Entry, error) {
	var e event
	if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
		return Entry{}, err
	}
	return Entry{
		User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb, URI: e.RequestURI,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Received: e.Received, Completed: e.Completed,
	}, nil
}
