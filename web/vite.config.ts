import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  build: { target: "es2022", outDir: "dist", assetsInlineLimit: 100_000_000, cssCodeSplit: false, modulePreload: false },
  worker: { format: "iife" },
  test: { include: ["test/unit/**/*.test.ts"], environment: "node" },
});
