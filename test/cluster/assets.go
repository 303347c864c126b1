package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The programs that a control plane consists of.
const (
	etcdProgram              = "etcd"
	apiServerProgram         = "kube-apiserver"
	controllerManagerProgram = "kube-controller-manager"
	kubectlProgram           = "kubectl"
)

// ErrNoAssets is returned when the programs of the control plane are not on this
// machine.
var ErrNoAssets = errors.New("the control plane is not built: run `make controlplane`, or set KUBEBUILDER_ASSETS")

// Assets are the paths of the control plane's programs.
type Assets struct {
	Etcd, APIServer, ControllerManager, Kubectl string
}

// Find returns the programs of the control plane. Each comes from the folder
// that KUBEBUILDER_ASSETS names if it is there, otherwise from
// out/controlplane of this repository. A program that is in neither is
// ErrNoAssets.
func Find() (Assets, error) { return find(true) }

// find is Find, with or without kube-controller-manager, which the published
// binaries for KUBEBUILDER_ASSETS lack.
func find(controllerManager bool) (Assets, error) {
	folders, err := assetFolders()
	if err != nil {
		return Assets{}, err
	}
	var found Assets
	wanted := map[string]*string{
		etcdProgram: &found.Etcd, apiServerProgram: &found.APIServer, kubectlProgram: &found.Kubectl,
	}
	if controllerManager {
		wanted[controllerManagerProgram] = &found.ControllerManager
	}
	for program, path := range wanted {
		if *path = first(folders, program); *path == "" {
			return Assets{}, fmt.Errorf("%s in %v: %w", program, folders, ErrNoAssets)
		}
	}
	return found, nil
}

func assetFolders() ([]string, error) {
	var folders []string
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		folders = append(folders, dir)
	}
	root, err := Root()
	if err != nil {
		if len(folders) > 0 {
			return folders, nil
		}
		return nil, err
	}
	return append(folders, filepath.Join(root, "out", "controlplane")), nil
}

func first(folders []string, program string) string {
	for _, folder := range folders {
		path := filepath.Join(folder, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// Root returns the absolute path of this repository: the nearest folder at or
// above the working directory that holds test/controlplane/go.mod.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no folder at or above %s holds test/controlplane/go.mod", start)
		}
	}
}
