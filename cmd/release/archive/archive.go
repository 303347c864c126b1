// Package archive writes archives whose bytes depend on nothing but their contents.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"time"
)

// An Entry is a file, a folder or a symbolic link of an archive.
type Entry struct {
	Name string // a folder's ends with a slash
	Mode int64
	Data []byte
	Link string // what a symbolic link points to; empty: it is none
	UID  int    // owner and group; 0 is root
}

// Tar writes the entries in their order, with the same time for each.
func Tar(w io.Writer, entries []Entry) error {
	out := tar.NewWriter(w)
	for _, e := range entries {
		if err := out.WriteHeader(e.header()); err != nil {
			return err
		}
		if _, err := out.Write(e.Data); err != nil {
			return err
		}
	}
	return out.Close()
}

func (e Entry) header() *tar.Header {
	h := &tar.Header{
		Name: e.Name, Mode: e.Mode, Size: int64(len(e.Data)), Linkname: e.Link, Uid: e.UID, Gid: e.UID,
		ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR, Typeflag: tar.TypeReg,
	}
	switch {
	case e.Link != "":
		h.Typeflag = tar.TypeSymlink
	case strings.HasSuffix(e.Name, "/"):
		h.Typeflag = tar.TypeDir
	}
	return h
}

// TarGz returns the entries as a compressed tar file.
func TarGz(entries []Entry) ([]byte, error) {
	var buffer bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := Tar(compressed, entries); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}
