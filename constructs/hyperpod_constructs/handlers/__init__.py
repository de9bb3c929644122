"""Lambda handlers of custom resources. They need boto3, which only the Lambda runtime has to provide."""
