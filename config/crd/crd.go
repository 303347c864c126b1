// Package crd has the CustomResourceDefinitions of this project, as the API server gets them.
package crd

import "embed"

// Files are the manifests.
//
//go:embed *_*.yaml
var Files embed.FS
