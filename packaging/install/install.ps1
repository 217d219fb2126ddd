# Installs tollgate @VERSION@ for one user: downloads the archive for this system, compares its SHA-256, and puts the
# program into %LOCALAPPDATA%\Programs\tollgate. Changes nothing else and needs no administrator.
#
#   $env:TOLLGATE_INSTALL_DIR   another folder for the program
#   $env:TOLLGATE_DOWNLOADS     another address of the files of this release
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
[Net.ServicePointManager]::SecurityProtocol = [Net.ServicePointManager]::SecurityProtocol -bor [Net.SecurityProtocolType]::Tls12

$version = '@VERSION@'
$downloads = if ($env:TOLLGATE_DOWNLOADS) { $env:TOLLGATE_DOWNLOADS } else { '@DOWNLOADS@' }
$folder = if ($env:TOLLGATE_INSTALL_DIR) { $env:TOLLGATE_INSTALL_DIR } else { Join-Path $env:LOCALAPPDATA 'Programs\tollgate' }

if ($downloads -notmatch '^(https://|http://127\.0\.0\.1:)') { throw "'$downloads' is not an https address" }
$target = switch ($env:PROCESSOR_ARCHITECTURE) {
    'AMD64' { 'x86_64-pc-windows-msvc' }
    'ARM64' { 'aarch64-pc-windows-msvc' }
    default { throw "there is no build for $env:PROCESSOR_ARCHITECTURE; build it from source: the README says how" }
}
$archive = "tollgate-$version-$target.zip"

$scratch = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
New-Item -ItemType Directory -Path $scratch | Out-Null
try {
    Invoke-WebRequest -UseBasicParsing "$downloads/SHA256SUMS" -OutFile "$scratch\SHA256SUMS"
    Invoke-WebRequest -UseBasicParsing "$downloads/$archive" -OutFile "$scratch\$archive"
    $line = Get-Content "$scratch\SHA256SUMS" | Where-Object { ($_ -split '\s+')[1] -eq $archive }
    if (-not $line) { throw "'$archive' is not listed in SHA256SUMS" }
    $expected = ($line -split '\s+')[0]
    $actual = (Get-FileHash -Algorithm SHA256 "$scratch\$archive").Hash
    if ($actual -ne $expected) {
        throw "'$archive' has the wrong SHA-256: $actual, expected $expected; nothing was installed"
    }
    Expand-Archive "$scratch\$archive" -DestinationPath $scratch
    New-Item -ItemType Directory -Force -Path $folder | Out-Null
    Copy-Item -Force "$scratch\tollgate-$version-$target\tollgate.exe" "$folder\tollgate.exe"
} finally {
    Remove-Item -Recurse -Force $scratch
}

Write-Output "installed tollgate $version as $folder\tollgate.exe"
if (($env:PATH -split ';') -contains $folder) {
    Write-Output 'next: tollgate up --demo'
} else {
    Write-Output "next: add $folder to PATH, then: tollgate up --demo"
}
