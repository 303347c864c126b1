package openstack

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

// databases are the names of all databases.
var databases = []string{"keystone", "placement", "glance", "neutron", "nova_api", "nova_cell0", "nova_cell1"}

// schemas returns the path of an archive of the databases with their tables and
// nothing else, which is made once per version of the packages. Several processes
// may want it at once; one makes it.
func schemas(ctx context.Context, cache string) (string, error) {
	versions, err := run(ctx, "", "dpkg-query", "--show", "nova-common", "neutron-common", "python3-keystone",
		"python3-placement", "glance-common", "mariadb-server-core")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte("3" + versions))
	archive := filepath.Join(cache, "schemas-"+hex.EncodeToString(sum[:8])+".tar")
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(archive+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	return archive, makeSchemas(ctx, archive)
}

// makeSchemas makes the archive, in a folder of its own.
func makeSchemas(ctx context.Context, archive string) (err error) {
	dir, err := os.MkdirTemp("", "mcm-os-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := settings{
		Dir: dir, Ports: map[string]int{"keystone": 5000, "glance": 9292, "neutron": 9696, "nova": 8774},
		PageSize: PageSize, Zone: Zone,
	}
	if err := s.write(); err != nil {
		return err
	}
	if _, err := run(ctx, "", "mariadb-install-db", "--no-defaults", "--datadir="+s.data(),
		"--auth-root-authentication-method=normal", "--skip-test-db", "--user="+me()); err != nil {
		return err
	}
	db, err := s.startDB(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Kill()) }()
	if err := s.fill(ctx); err != nil {
		return err
	}
	if err := db.Stop(time.Minute); err != nil { // files of a killed one are not whole
		return err
	}
	if _, err := run(ctx, "", "tar", "-C", filepath.Join(dir, "state"), "-cf", archive+".new", "."); err != nil {
		return err
	}
	return os.Rename(archive+".new", archive)
}

func (s settings) data() string { return filepath.Join(s.Dir, "state", "mysql") }

// fill makes all tables, services beside each other.
func (s settings) fill(ctx context.Context) error {
	var sql strings.Builder
	for _, name := range databases {
		fmt.Fprintf(&sql, "CREATE DATABASE %s CHARACTER SET utf8mb4;", name)
	}
	if _, err := s.sql(ctx, sql.String()); err != nil {
		return err
	}
	if err := s.writeKeys("fernet", "credential"); err != nil {
		return err
	}
	keystone, nova := s.file("keystone.conf"), s.file("nova.conf")
	url := "http://keystone.invalid/v3"
	chains := [][][]string{
		{
			{"keystone-manage", "--config-file", keystone, "db_sync"},
			{
				"keystone-manage", "--config-file", keystone, "bootstrap", "--bootstrap-password", adminPassword,
				"--bootstrap-region-id", Region,
				"--bootstrap-public-url", url, "--bootstrap-internal-url", url, "--bootstrap-admin-url", url,
			},
			{"placement-manage", "--config-file", s.file("placement.conf"), "db", "sync"},
		},
		{
			{"nova-manage", "--config-file", nova, "api_db", "sync"},
			{"cells"},
			{"nova-manage", "--config-file", nova, "db", "sync"},
		},
		{
			{"neutron-db-manage", "--config-file", s.file("neutron.conf"), "upgrade", "heads"},
			{"glance-manage", "--config-file", s.file("glance-api.conf"), "db_sync"},
		},
	}
	var wg sync.WaitGroup
	failures := make([]error, len(chains))
	for i, chain := range chains {
		wg.Go(func() {
			for _, step := range chain {
				if failures[i] = s.step(ctx, step); failures[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// step runs one command of OpenStack.
func (s settings) step(ctx context.Context, command []string) error {
	if command[0] == "cells" {
		_, err := s.sql(ctx, s.cells())
		return err
	}
	p, err := process.Start(process.Command{
		Program: command[0], Args: command[1:], Env: s.environment(), Log: s.log(command[0]),
	})
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// cells tells Nova where the databases of its cells are.
func (s settings) cells() string {
	var sql strings.Builder
	sql.WriteString("DELETE FROM nova_api.cell_mappings;")
	for _, cell := range []struct{ uuid, name, transport, db string }{
		{"00000000-0000-0000-0000-000000000000", "cell0", "none:///", "nova_cell0"},
		{"00000000-0000-0000-0000-000000000001", "cell1", "fake://", "nova_cell1"},
	} {
		fmt.Fprintf(&sql, "INSERT INTO nova_api.cell_mappings (created_at, uuid, name, transport_url, database_connection, "+
			"disabled) VALUES (UTC_TIMESTAMP(), '%s', '%s', '%s', '%s', 0);",
			cell.uuid, cell.name, cell.transport, s.DB(cell.db))
	}
	return sql.String()
}

// writeKeys makes the keys that Keystone encrypts with.
func (s settings) writeKeys(repositories ...string) error {
	const size, keys = 32, 2
	for _, name := range repositories {
		dir := filepath.Join(s.Dir, "state", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		for i := range keys {
			key := make([]byte, size)
			_, _ = rand.Read(key) // never fails
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(base64.URLEncoding.EncodeToString(key)),
				0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
