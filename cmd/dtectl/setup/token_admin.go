package setup

import (
	"errors"
	"io/fs"
	"os"

	"dtegate/cmd/dtectl/operator"
	"dtegate/cmd/dted/config"
	"dtegate/cmd/screen"
)

type tokenAdmin struct{}

// Run makes another admin token, where the one before is lost or known to others. The token is in its file alone.
func (*tokenAdmin) Run(top *operator.Options) error {
	cfg, err := config.Load(top.Config)
	if err != nil {
		return err
	}
	if cfg.Ops.AdminTokenFile == "" {
		return errors.New("ops.admin_token_file: is not set: name the file there first")
	}
	if err := config.WriteFile(cfg.Ops.AdminTokenFile, []byte(config.Secret()+"\n")); err != nil {
		return err
	}
	screen.Printf("admin token  %s\nnext         systemctl restart dted: a running appliance goes on with the one before\n", cfg.Ops.AdminTokenFile)
	return nil
}

// makeAdminToken makes the admin token at the installation, where the configuration names a file that is not there.
func makeAdminToken(cfg *config.Config) error {
	if cfg.Ops.AdminTokenFile == "" {
		return nil
	}
	if _, err := os.Stat(cfg.Ops.AdminTokenFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return config.WriteFile(cfg.Ops.AdminTokenFile, []byte(config.Secret()+"\n"))
}
